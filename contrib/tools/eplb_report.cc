// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/words.h"

namespace rlx::eplb {

using namespace sched;

Placement in_order(int layers, int experts, const Cluster& cluster, std::span<const uint8_t> dead) {
  Placement p{layers, cluster.slots(), {}};
  for (int l = 0; l < layers; ++l)
    for (int s = 0, i = 0; s < cluster.slots(); ++s)
      p.expert.push_back(!dead.empty() && dead[cluster.rank_of[s]] ? kEmpty : i++ % experts);
  return p;
}

std::vector<double> layer_balances(const Report& r, const Placement& placement) {
  std::vector<double> balances(r.loads.layers);
  double speed = 0;
  for (int rank = 0; rank < r.cluster.ranks(); ++rank)
    if (r.dead.empty() || !r.dead[rank]) speed += r.cluster.speed[rank];
  for (int l = 0; l < r.loads.layers; ++l) {
    std::vector<uint8_t> held(r.loads.experts);
    for (int32_t e : placement.row(l))
      if (e != kEmpty) held[e] = 1;
    double peak = 0, work = 0;
    for (int t = 0; t < r.loads.windows; ++t) {
      const auto load = r.loads.row(t, l);
      const auto times = rank_times(load, placement.row(l), r.cluster, r.time);
      peak += *std::max_element(times.begin(), times.end());
      for (int e = 0; e < r.loads.experts; ++e)
        if (held[e] && load[e] > 0) work += load[e] + r.time.fixed_cost;
    }
    balances[l] = peak > 0 ? work / speed / peak : 1;
  }
  return balances;
}

void drop_dead(Placement& placement, const Cluster& cluster, std::span<const uint8_t> dead) {
  for (int s = 0; s < placement.slots; ++s)
    for (int l = 0; l < placement.layers && !dead.empty(); ++l)
      if (dead[cluster.rank_of[s]]) placement.row(l)[s] = kEmpty;
}

double balance_of(const Report& r, const Placement& placement) {
  const std::vector<double> balances = layer_balances(r, placement);
  return std::accumulate(balances.begin(), balances.end(), 0.0) / r.loads.layers;
}

std::string budget_words(const Plan& plan) {
  const int64_t lost = plan.lost();
  if (lost == 0) return fmt::format("{} fetched, all for balance", plan.fetches());
  return fmt::format(
      "{} fetched, {} of them lost experts, which come whatever the budget; {} for "
      "balance",
      plan.fetches(), lost, plan.fetches() - lost);
}

namespace {

// What `before` is called.
const char* was(const Report& r) { return r.has_from ? "now" : "in order"; }

std::vector<int> where(std::span<const uint8_t> marks, bool marked) {
  std::vector<int> found;
  for (size_t i = 0; i < marks.size(); ++i)
    if ((marks[i] != 0) == marked) found.push_back(static_cast<int>(i));
  return found;
}

std::string named(const std::vector<int>& numbers, size_t most) {
  std::string out;
  for (size_t i = 0; i < std::min(most, numbers.size()); ++i)
    out += fmt::format("{}{}", i ? ", " : "", numbers[i]);
  return numbers.size() > most ? out + ", ..." : out;
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
      "moves       {} of {} ({:.1f} %): {} in all, {} between nodes, {} received and {} sent by "
      "the busiest rank\n"
      "            {} over all layers (no schedule has fewer than {}), {} a rank\n",
      r.plan.fetches(), counted(slots, "slot"),
      100.0 * static_cast<double>(r.plan.fetches()) / static_cast<double>(slots),
      bytes(static_cast<double>(sent)), bytes(static_cast<double>(between)),
      bytes(static_cast<double>(*std::max_element(m.received.begin(), m.received.end()))),
      bytes(static_cast<double>(*std::max_element(m.sent.begin(), m.sent.end()))),
      counted(rounds, "round"), least, counted(m.spare, "spare slab"));
  if (r.budget >= 0)
    out += fmt::format("budget      {}: {}\n", counted(r.budget, "slot"), budget_words(r.plan));
  if (!r.payback.empty()) out += fmt::format("payback     {}\n", r.payback);
  return out;
}

// Which ranks are gone and what went with them.
std::string losses(const Report& r) {
  std::string out;
  const std::vector<int> gone = where(r.dead, true);
  if (!gone.empty()) {
    int slots = 0;
    for (int rank : gone) slots += r.cluster.slots_of(rank);
    out += fmt::format("dead        {} {} with {} a layer\n", gone.size() == 1 ? "rank" : "ranks",
                       named(gone, 16), counted(slots, "slot"));
  }
  if (r.plan.lost() == 0) return out;
  int layers = 0, first = -1;
  for (int l = 0; l < r.loads.layers; ++l) {
    layers += r.plan.layers[l].lost > 0;
    if (first < 0 && r.plan.layers[l].lost > 0) first = l;
  }
  std::vector<uint8_t> held(r.loads.experts);
  for (int32_t e : r.before.row(first))
    if (e != kEmpty) held[e] = 1;
  return out +
         fmt::format(
             "lost        {} in {} (layer {}: {}): no living rank holds them, so reload their "
             "weights;\n"
             "            '{}' is the balance of the tokens that are still served\n",
             counted(r.plan.lost(), "expert"), counted(layers, "layer"), first,
             named(where(held, false), 8), was(r));
}

std::string noise(const Report& r) {
  double tokens = 0;
  for (double w : r.loads.values) tokens += w;
  tokens /= static_cast<double>(r.loads.windows) * r.loads.layers * static_cast<double>(r.steps);
  if (r.noise > 1)
    return fmt::format(
        "noise       more than 100 %: {:.3g} tokens a layer and step are too few to tell (the "
        "counts cover {}, --steps)\n",
        tokens, counted(r.steps, "step"));
  return fmt::format(
      "noise       {:.1f} % above the mean is what chance alone makes of the slowest rank in one "
      "step\n",
      100 * r.noise);
}

std::string summary(const Report& r) {
  const Plan& plan = r.plan;
  int duplicates = 0, optimal = 0, empty = 0;
  for (const LayerReport& l : plan.layers) {
    duplicates += l.duplicates;
    optimal += l.optimal;
  }
  for (int l = 0; l < plan.placement.layers; ++l)
    for (int s = 0; s < plan.placement.slots; ++s)
      empty +=
          plan.placement.row(l)[s] == kEmpty && (r.dead.empty() || !r.dead[r.cluster.rank_of[s]]);
  const double bound = plan.bound_balance(), balance = plan.balance();
  std::string out = fmt::format(
      "balance     {:.4f} {} -> {:.4f} planned; {:.4f} is the bound, the gap {:.2f} %\n"
      "            (mean over maximum of the ranks' time, average of the layers; 1 is perfect)\n"
      "            {:.4f} if tokens are split unevenly over replicas, batch by batch\n",
      balance_of(r, r.before), was(r), balance, bound, 100 * (bound / balance - 1),
      plan.split_balance());
  out += losses(r) + noise(r);
  out += fmt::format("duplicates  {} whose expert is on the same rank already\n",
                     counted(duplicates, "slot"));
  if (optimal)
    out +=
        fmt::format("optimal     {}: proven, no placement is better\n", counted(optimal, "layer"));
  if (empty) out += fmt::format("empty       {}\n", counted(empty, "slot"));
  if (r.copies)
    out += fmt::format(
        "traffic     {:.3f} copies of a token to other nodes{}, {:.3f} to other racks\n",
        r.copies->nodes,
        r.copies_before ? fmt::format(" ({} {:.3f})", was(r), r.copies_before->nodes) : "",
        r.copies->racks);
  return out;
}

}  // namespace

std::string table(const Report& r) {
  std::string out =
      fmt::format("{}: {}, {}, {} on {} and {}; policy {}, planned in {:.1f} ms\n\n", r.title,
                  counted(r.loads.layers, "layer"), counted(r.loads.experts, "expert"),
                  counted(r.cluster.slots(), "slot"), counted(r.cluster.ranks(), "rank"),
                  counted(r.cluster.nodes(), "node"), r.policy, r.seconds * 1e3);
  out += summary(r);
  if (r.migration) out += moves(r);
  const bool lost = r.plan.lost() > 0;
  out += fmt::format("\n{:>5} {:>8} {:>8} {:>8} {:>7} {:>4} {:>6}{}\n", "layer", was(r), "plan",
                     "bound", "gap %", "dup", "fetch", lost ? "  lost" : "");
  const std::vector<double> before = layer_balances(r, r.before);
  for (int l = 0; l < r.loads.layers; ++l) {
    const LayerReport& x = r.plan.layers[l];
    const auto ratio = [&](double peak) { return peak > 0 ? x.mean / peak : 1; };
    out += fmt::format("{:>5} {:>8.4f} {:>8.4f} {:>8.4f} {:>7.2f} {:>4} {:>6}", l, before[l],
                       ratio(x.peak), ratio(x.bound),
                       x.bound > 0 ? 100 * (x.peak / x.bound - 1) : 0, x.duplicates, x.fetches);
    out += lost ? fmt::format(" {:>5}\n", x.lost) : "\n";
  }
  return out;
}

}  // namespace rlx::eplb
