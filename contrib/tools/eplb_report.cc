// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace rlx::eplb {

using namespace sched;

Placement in_order(int layers, int experts, int slots) {
  Placement p{layers, slots, {}};
  for (int l = 0; l < layers; ++l)
    for (int s = 0; s < slots; ++s) p.expert.push_back(s % experts);
  return p;
}

std::vector<double> layer_balances(const Report& r, const Placement& placement) {
  std::vector<double> balances(r.loads.layers);
  if (!check_placement(placement, r.loads, r.cluster)) return balances;
  for (int l = 0; l < r.loads.layers; ++l) {
    double peak = 0;
    for (int t = 0; t < r.loads.windows; ++t) {
      const auto times = rank_times(r.loads.row(t, l), placement.row(l), r.cluster, r.time);
      peak += *std::max_element(times.begin(), times.end());
    }
    balances[l] = peak > 0 ? r.plan.layers[l].mean / peak : 1;
  }
  return balances;
}

double balance_of(const Report& r, const Placement& placement) {
  const std::vector<double> balances = layer_balances(r, placement);
  return std::accumulate(balances.begin(), balances.end(), 0.0) / r.loads.layers;
}

namespace {

std::string counted(int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string bytes(double n) {
  const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  int u = 0;
  for (; n >= 1000 && u < 5; ++u) n /= 1000;
  return fmt::format("{:.3g} {}", n, units[u]);
}

std::string moves(const Report& r) {
  const Migration& m = *r.migration;
  const int64_t slots = int64_t{r.plan.placement.layers} * r.plan.placement.slots;
  int64_t rounds = 0, least = 0, sent = 0, between = 0;
  for (int n : m.rounds) rounds += n;
  for (int n : m.least_rounds) least += n;
  for (int64_t n : m.sent) sent += n;
  const int nodes = r.cluster.nodes();
  for (int a = 0; a < nodes; ++a)
    for (int b = 0; b < nodes; ++b) between += a == b ? 0 : m.link[size_t(a) * nodes + b];
  std::string out = fmt::format(
      "moves       {} of {} slots ({:.1f} %): {} in all, {} between nodes, {} received and {} sent "
      "by "
      "the busiest rank\n"
      "            {} rounds over all layers (no schedule has fewer than {}), {} spare slabs a "
      "rank\n",
      r.plan.fetches(), slots,
      100.0 * static_cast<double>(r.plan.fetches()) / static_cast<double>(slots),
      bytes(static_cast<double>(sent)), bytes(static_cast<double>(between)),
      bytes(static_cast<double>(*std::max_element(m.received.begin(), m.received.end()))),
      bytes(static_cast<double>(*std::max_element(m.sent.begin(), m.sent.end()))), rounds, least,
      m.spare);
  if (m.lost)
    out += fmt::format("lost        {} slabs that no live rank holds: reload them\n", m.lost);
  return out + fmt::format("payback     {}\n", r.payback);
}

}  // namespace

std::string table(const Report& r) {
  const Plan& plan = r.plan;
  int duplicates = 0, optimal = 0, empty = 0;
  for (const LayerReport& l : plan.layers) {
    duplicates += l.duplicates;
    optimal += l.optimal;
  }
  for (int32_t e : plan.placement.expert) empty += e == kEmpty;
  const double bound = plan.bound_balance(), balance = plan.balance();
  std::string out = fmt::format(
      "{}: {}, {}, {} on {} and {}; policy {}, planned in {:.1f} ms\n\n"
      "balance     {:.4f} {} -> {:.4f} planned; {:.4f} is the bound, the gap {:.2f} %\n"
      "            (mean over maximum of the ranks' time, average of the layers; 1 is perfect)\n"
      "            {:.4f} if tokens are split unevenly over replicas, batch by batch\n"
      "noise       {:.1f} % above the mean is what chance alone makes of the slowest rank in one "
      "step\n"
      "duplicates  {} slots whose expert is on the same rank already\n",
      r.title, counted(r.loads.layers, "layer"), counted(r.loads.experts, "expert"),
      counted(r.cluster.slots(), "slot"), counted(r.cluster.ranks(), "rank"),
      counted(r.cluster.nodes(), "node"), r.policy, r.seconds * 1e3, balance_of(r, r.before),
      r.has_from ? "now" : "in order", balance, bound, 100 * (bound / balance - 1),
      plan.split_balance(), 100 * r.noise, duplicates);
  if (optimal)
    out += fmt::format("optimal     {} layers: proven, no placement is better\n", optimal);
  if (empty) out += fmt::format("empty       {} slots\n", empty);
  if (r.copies)
    out += fmt::format(
        "traffic     {:.3f} copies of a token to other nodes (now {:.3f}), {:.3f} to other "
        "racks\n",
        r.copies->nodes, r.copies_before ? r.copies_before->nodes : 0, r.copies->racks);
  if (r.migration) out += moves(r);
  out += fmt::format("\n{:>5} {:>8} {:>8} {:>8} {:>7} {:>4} {:>6}\n", "layer",
                     r.has_from ? "now" : "in order", "plan", "bound", "gap %", "dup", "fetch");
  const std::vector<double> before = layer_balances(r, r.before);
  for (int l = 0; l < r.loads.layers; ++l) {
    const LayerReport& x = plan.layers[l];
    const auto ratio = [&](double peak) { return peak > 0 ? x.mean / peak : 1; };
    out += fmt::format("{:>5} {:>8.4f} {:>8.4f} {:>8.4f} {:>7.2f} {:>4} {:>6}\n", l, before[l],
                       ratio(x.peak), ratio(x.bound),
                       x.bound > 0 ? 100 * (x.peak / x.bound - 1) : 0, x.duplicates, x.fetches);
  }
  return out;
}

}  // namespace rlx::eplb
