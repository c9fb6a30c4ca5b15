// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sched/stats.h"

#include <fmt/core.h>

namespace rlx::sched {

LoadStats::LoadStats(int layers, int experts, const Options& options)
    : layers_(layers), experts_(experts), options_(options), phases_(options.phases) {
  for (Phase& p : phases_) {
    p.running.assign(size_t(layers) * experts, 0);
    p.average = p.running;
  }
}

Status LoadStats::check_phase(int phase) const {
  if (phase >= 0 && phase < static_cast<int>(phases_.size())) return {};
  return fail(Code::kInvalid, fmt::format("phase {}: want 0 to {}", phase, phases_.size() - 1));
}

Status LoadStats::add(int phase, std::span<const int64_t> counts) {
  RLX_TRY(check_phase(phase));
  if (counts.size() != size_t(layers_) * experts_)
    return fail(Code::kInvalid, fmt::format("{} counts given, want {} layers x {} experts",
                                            counts.size(), layers_, experts_));
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] < 0)
      return fail(Code::kInvalid,
                  fmt::format("count of expert {} in layer {} is {}: want 0 or more", i % experts_,
                              i / experts_, counts[i]));
  Phase& p = phases_[phase];
  for (size_t i = 0; i < counts.size(); ++i) {
    const double c = static_cast<double>(counts[i]);
    p.running[i] += c;
    p.average[i] = options_.decay * p.average[i] + (1 - options_.decay) * c;
  }
  p.weight = options_.decay * p.weight + (1 - options_.decay);
  if (++p.steps < options_.steps_per_window) return {};
  p.full.push_back(p.running);
  if (static_cast<int>(p.full.size()) > options_.windows) p.full.pop_front();
  p.running.assign(p.running.size(), 0);
  p.steps = 0;
  return {};
}

Result<Loads> LoadStats::windows(int phase) const {
  RLX_TRY(check_phase(phase));
  const Phase& p = phases_[phase];
  if (p.weight == 0) return fail(Code::kAgain, fmt::format("phase {} has no step yet", phase));
  if (p.full.empty()) return Loads{1, layers_, experts_, p.running};
  Loads loads{static_cast<int>(p.full.size()), layers_, experts_, {}};
  for (const auto& w : p.full) loads.values.insert(loads.values.end(), w.begin(), w.end());
  return loads;
}

Result<Loads> LoadStats::average(int phase) const {
  RLX_TRY(check_phase(phase));
  const Phase& p = phases_[phase];
  if (p.weight == 0) return fail(Code::kAgain, fmt::format("phase {} has no step yet", phase));
  Loads loads{1, layers_, experts_, p.average};
  for (double& v : loads.values) v /= p.weight;
  return loads;
}

}  // namespace rlx::sched
