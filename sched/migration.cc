// SPDX-License-Identifier: MIT OR Apache-2.0
// Tested by test/sched/test_migration.cc, which plays every plan back slab by slab.
#include "sched/migration.h"

#include <fmt/core.h>

#include <algorithm>

#include "sched/edge_colour.h"
#include "sched/forwarding.h"
#include "sched/level_sources.h"

namespace rlx::sched {
namespace {

// One layer: who holds what before, who lacks what after.
class LayerMigration {
 public:
  LayerMigration(int layer, std::span<const int32_t> before, std::span<const int32_t> after,
                 int experts, const Cluster& cluster, std::span<const uint8_t> dead)
      : layer_(layer), before_(before), after_(after), cluster_(cluster), holders_(experts) {
    for (int s = 0; s < cluster.slots(); ++s) {
      const int r = cluster.rank_of[s];
      if (before[s] == kEmpty || (!dead.empty() && dead[r])) continue;
      if (holders_[before[s]].empty() || holders_[before[s]].back() != r)
        holders_[before[s]].push_back(r);
    }
    for (int s = 0; s < cluster.slots(); ++s)
      if (dead.empty() || !dead[cluster.rank_of[s]]) need(s);
  }

  void add_to(Migration& plan) {
    std::vector<Hop> hops = direct();
    const int least = least_rounds();
    if (rounds(hops) > least) {
      std::vector<Hop> tree = forward(fetches_, cluster_);
      if (rounds(tree) < rounds(hops)) hops = std::move(tree);
    }
    std::stable_sort(hops.begin(), hops.end(),
                     [](const Hop& a, const Hop& b) { return a.round < b.round; });
    plan.rounds.push_back(rounds(hops));
    plan.least_rounds.push_back(least);
    const auto add_local = [&](bool forwarded) {
      for (const Transfer& t : local_)
        if (t.forwarded == forwarded) plan.transfers.push_back(t);
    };
    add_local(false);
    for (const Hop& hop : hops) {
      const Fetch& f = fetches_[hop.fetch];
      const bool forwarded =
          std::find(f.sources.begin(), f.sources.end(), hop.from) == f.sources.end();
      plan.transfers.push_back({layer_, f.expert, hop.from, f.to,
                                slot_of(forwarded ? after_ : before_, hop.from, f.expert),
                                slot_of(after_, f.to, f.expert), hop.round, forwarded});
    }
    add_local(true);
  }

 private:
  int slot_of(std::span<const int32_t> placement, int rank, int32_t e) const {
    int s = cluster_.first_slot[rank];
    while (placement[s] != e) ++s;
    return s;
  }

  // A slot that changes: from the same rank if it has the expert or another slot of it fetches it.
  void need(int s) {
    const int32_t e = after_[s];
    const int r = cluster_.rank_of[s];
    if (e == kEmpty || before_[s] == e) return;
    const auto& holders = holders_[e];
    if (std::find(holders.begin(), holders.end(), r) != holders.end())
      local_.push_back({layer_, e, r, r, slot_of(before_, r, e), s, kLocal, false});
    else if (slot_of(after_, r, e) != s)
      local_.push_back({layer_, e, r, r, slot_of(after_, r, e), s, kLocal, true});
    else if (holders.empty())
      local_.push_back({layer_, e, kLost, r, -1, s, kLocal, false});
    else
      fetches_.push_back({e, r, holders});
  }

  std::vector<Hop> direct() const {
    const std::vector<int> source = level_sources(fetches_, cluster_);
    std::vector<Edge> edges;
    for (size_t f = 0; f < fetches_.size(); ++f) edges.push_back({source[f], fetches_[f].to});
    const std::vector<int> round = colour_edges(edges, cluster_.ranks());
    std::vector<Hop> hops;
    for (size_t f = 0; f < fetches_.size(); ++f)
      hops.push_back({static_cast<int>(f), source[f], round[f]});
    return hops;
  }

  static int rounds(const std::vector<Hop>& hops) {
    int n = 0;
    for (const Hop& hop : hops) n = std::max(n, hop.round + 1);
    return n;
  }

  // A rank receives one slab a round, sends one, and the holders of an expert at most double in
  // one.
  int least_rounds() const {
    std::vector<int> received(cluster_.ranks()), wanted(holders_.size());
    std::vector<int> sole(cluster_.ranks());  // experts that only this rank can pass on first
    int least = 0;
    for (const Fetch& f : fetches_) {
      least = std::max(least, ++received[f.to]);
      ++wanted[f.expert];
    }
    for (size_t e = 0; e < wanted.size(); ++e) {
      if (wanted[e] == 0) continue;
      int rounds = 0;
      for (size_t have = holders_[e].size(), want = have + wanted[e]; have < want; have *= 2)
        ++rounds;
      least = std::max(least, rounds);
      if (holders_[e].size() == 1) least = std::max(least, ++sole[holders_[e][0]]);
    }
    return least;
  }

  const int layer_;
  std::span<const int32_t> before_, after_;
  const Cluster& cluster_;
  std::vector<std::vector<int>> holders_;  // by expert: live ranks, ascending
  std::vector<Fetch> fetches_;
  std::vector<Transfer> local_;
};

void count_bytes(Migration& plan, const Cluster& cluster, int64_t expert_bytes) {
  plan.sent.assign(cluster.ranks(), 0);
  plan.received.assign(cluster.ranks(), 0);
  plan.link.assign(size_t(cluster.nodes()) * cluster.nodes(), 0);
  std::vector<int> landed(cluster.ranks());
  int layer = -1;
  for (const Transfer& t : plan.transfers) {
    if (t.layer != layer) landed.assign(cluster.ranks(), 0);
    layer = t.layer;
    if (t.from == t.to) continue;
    plan.spare = std::max(plan.spare, ++landed[t.to]);
    plan.received[t.to] += expert_bytes;
    if (t.from == kLost) {
      ++plan.lost;
      continue;
    }
    plan.sent[t.from] += expert_bytes;
    plan.link[size_t(cluster.node_of[t.from]) * cluster.nodes() + cluster.node_of[t.to]] +=
        expert_bytes;
  }
}

}  // namespace

Result<Migration> plan_migration(const Placement& before, const Placement& after, int experts,
                                 const Cluster& cluster, int64_t expert_bytes,
                                 std::span<const uint8_t> dead) {
  const Loads shape{1, before.layers, experts, {}};
  RLX_TRY(check_placement(before, shape, cluster, false));
  RLX_TRY(check_placement(after, shape, cluster, false));
  const int64_t slots = std::max<int64_t>(1, int64_t{before.layers} * before.slots);
  if (expert_bytes < 0 || expert_bytes > INT64_MAX / slots)  // a sum of bytes would not fit
    return fail(Code::kInvalid,
                fmt::format("{} bytes an expert: want 0 to {}", expert_bytes, INT64_MAX / slots));
  if (!dead.empty() && static_cast<int>(dead.size()) != cluster.ranks())
    return fail(Code::kInvalid,
                fmt::format("{} marks of dead ranks for {} ranks", dead.size(), cluster.ranks()));
  Migration plan;
  for (int l = 0; l < before.layers; ++l)
    LayerMigration(l, before.row(l), after.row(l), experts, cluster, dead).add_to(plan);
  count_bytes(plan, cluster, expert_bytes);
  return plan;
}

}  // namespace rlx::sched
