// SPDX-License-Identifier: MIT OR Apache-2.0
// Tested by test/sched/test_payback.cc
#include "sched/payback.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sched/portable_math.h"

namespace rlx::sched {

double sampling_noise(std::span<const double> load, std::span<const int32_t> placement,
                      const Cluster& cluster) {
  std::vector<int> copies(load.size());
  for (int32_t e : placement)
    if (e != kEmpty) ++copies[e];
  double variance = 0,
         mean = 0;  // counts of experts vary as Poisson; a replica has 1/c of its expert's
  for (int32_t e : placement) {
    if (e == kEmpty) continue;
    mean += load[e] / copies[e];
    variance += load[e] / copies[e] / copies[e];
  }
  const double ranks = cluster.ranks();
  if (ranks < 2 || mean <= 0) return 0;
  // The largest of `ranks` normal variables, by its Gumbel limit.
  const double a = std::sqrt(2 * portable_log(ranks));
  const double largest = a - (portable_log(portable_log(ranks)) + 2.5310) / (2 * a) + 0.5772 / a;
  return largest * std::sqrt(variance / ranks) / (mean / ranks);
}

double TokenCost::seconds() const {
  const double compute = flop / flop_per_second, wire = bytes / bytes_per_second;
  return overlapped ? std::max(compute, wire) : compute + wire;
}

double Experience::horizon_steps() const {
  if (lasted_.empty()) return 1000;
  std::vector<double> sorted(lasted_.begin(), lasted_.end());
  std::nth_element(sorted.begin(), sorted.begin() + sorted.size() / 2, sorted.end());
  return sorted[sorted.size() / 2];
}

void Experience::saw_gain(double predicted, double delivered) {
  if (!(predicted > 0) || !std::isfinite(delivered)) return;
  discount_ = 0.7 * discount_ + 0.3 * std::clamp(delivered / predicted, 0.0, 1.2);
}

void Experience::saw_change_after(double steps) {
  constexpr size_t kMostKept = 9;
  lasted_.push_back(steps);
  if (lasted_.size() > kMostKept) lasted_.pop_front();
}

Payback weigh(const Prospect& p, double discount, double horizon) {
  Payback result;
  result.cost = p.move_seconds;
  result.saved_per_step = discount * p.tokens_saved * p.token_seconds;
  result.steps_to_pay = result.saved_per_step > 0 ? result.cost / result.saved_per_step
                                                  : std::numeric_limits<double>::infinity();
  if (p.excess <= p.noise) {
    result.reason = fmt::format(
        "stay: the slowest rank is {:.1f} % above the mean, chance alone makes "
        "{:.1f} %",
        100 * p.excess, 100 * p.noise);
  } else if (horizon * result.saved_per_step <= (1 + p.hysteresis) * result.cost) {
    result.reason = fmt::format("stay: {:.3g} s saved over {:.0f} steps, moving costs {:.3g} s",
                                horizon * result.saved_per_step, horizon, result.cost);
  } else {
    result.move = true;
    result.reason =
        fmt::format("move: pays after {:.3g} of {:.0f} steps", result.steps_to_pay, horizon);
  }
  return result;
}

}  // namespace rlx::sched
