// SPDX-License-Identifier: MIT OR Apache-2.0
// Cost: change() looks at the tokens of two experts, T K / n each.
// Tested by test/sched/test_traffic.cc
#include "sched/traffic.h"

#include <algorithm>
#include <bit>

namespace rlx::sched {

Traffic::Traffic(const TokenSample& sample, const Cluster& cluster, int experts, double rack_price)
    : sample_(sample),
      cluster_(cluster),
      rack_price_(rack_price),
      near_(cluster.nodes()),
      tokens_of_(experts) {
  for (int a = 0; a < cluster.nodes(); ++a)
    for (int b = 0; b < cluster.nodes(); ++b)
      if (cluster.rack_of[a] == cluster.rack_of[b]) near_[a] |= Mask{1} << b;
  for (int t = 0; t < sample.tokens; ++t)
    for (int i = 0; i < sample.k; ++i)
      tokens_of_[sample.expert[size_t(t) * sample.k + i]].push_back(t);
}

// The nodes token t is copied to, its own left out.
template <class Nodes>
Traffic::Mask Traffic::visits(int token, Nodes nodes_of) const {
  const Mask own = Mask{1} << (token % cluster_.nodes());
  Mask visited = 0;
  for (int i = 0; i < sample_.k; ++i) {
    Mask on = nodes_of(sample_.expert[size_t(token) * sample_.k + i]);
    if ((on & own) || on == 0) continue;
    if (on & (on - 1))
      for (int skip = token % std::popcount(on); skip > 0; --skip) on &= on - 1;
    visited |= on & -on;
  }
  return visited;
}

double Traffic::price(int token, Mask visited) const {
  const Mask near = near_[token % cluster_.nodes()];
  return std::popcount(visited & near) + rack_price_ * std::popcount(visited & ~near);
}

Copies Traffic::copies(const LayerState& state) const {
  Copies sum;
  for (int t = 0; t < sample_.tokens; ++t) {
    const Mask visited = visits(t, [&](int32_t e) { return state.nodes_of(e); });
    sum.nodes += std::popcount(visited);
    sum.racks += std::popcount(visited & ~near_[t % cluster_.nodes()]);
  }
  sum.nodes /= std::max(1, sample_.tokens);
  sum.racks /= std::max(1, sample_.tokens);
  return sum;
}

double Traffic::change(const LayerState& state, Override a, Override b) const {
  const auto before = [&](int32_t e) { return state.nodes_of(e); };
  const auto after = [&](int32_t e) {
    return e == a.expert ? a.nodes : e == b.expert ? b.nodes : state.nodes_of(e);
  };
  double sum = 0;
  for (int32_t e : {a.expert, b.expert}) {
    if (e == kEmpty || after(e) == before(e)) continue;
    const int32_t other = e == b.expert ? a.expert : kEmpty;  // its tokens were counted before
    for (int t : tokens_of_[e]) {
      const auto begin = sample_.expert.begin() + size_t(t) * sample_.k;
      if (other != kEmpty && after(other) != before(other) &&
          std::find(begin, begin + sample_.k, other) != begin + sample_.k)
        continue;
      sum += price(t, visits(t, after)) - price(t, visits(t, before));
    }
  }
  return sum / std::max(1, sample_.tokens);
}

namespace {

// The nodes of e if its replica in slot `from` (-1: a new one) goes to `node` (-1: nowhere).
uint64_t nodes_after(const LayerState& state, int32_t e, int from, int node) {
  const Cluster& cluster = state.layer().cluster;
  uint64_t nodes = node < 0 ? 0 : uint64_t{1} << node;
  for (int s : state.slots_of(e))
    if (s != from) nodes |= uint64_t{1} << cluster.node_of[cluster.rank_of[s]];
  return nodes;
}

}  // namespace

double Traffic::change(const LayerState& state, const Move& move) const {
  const auto node = [&](int slot) {
    return slot < 0 ? -1 : cluster_.node_of[cluster_.rank_of[slot]];
  };
  if (node(move.slot) == node(move.other)) return 0;
  Override leaves{state.expert(move.slot), 0};
  Override comes{move.other < 0 ? move.expert : state.expert(move.other), 0};
  if (leaves.expert != kEmpty)
    leaves.nodes = nodes_after(state, leaves.expert, move.slot, node(move.other));
  if (comes.expert != kEmpty)
    comes.nodes = nodes_after(state, comes.expert, move.other, node(move.slot));
  return change(state, leaves, comes);
}

double Traffic::change(const LayerState& state, int slot, int node) const {
  const int32_t e = state.expert(slot);
  return e == kEmpty ? 0 : change(state, {e, nodes_after(state, e, slot, node)}, {});
}

namespace {

bool may_exchange(const LayerState& state, int s, int q, double most) {
  const Cluster& cluster = state.layer().cluster;
  const int r = cluster.rank_of[s], p = cluster.rank_of[q];
  const int32_t e = state.expert(s), f = state.expert(q);
  if (e == kEmpty || f == kEmpty || e == f || state.holds(p, e) || state.holds(r, f)) return false;
  double sum = 0;
  for (int t = 0; t < static_cast<int>(state.layer().windows.size()); ++t) {
    const double d = state.slot_cost(t, s) - state.slot_cost(t, q);
    sum += std::max({state.time(t, r) - d / cluster.speed[r],
                     state.time(t, p) + d / cluster.speed[p], state.peak(t)});
  }
  return sum <= most;
}

}  // namespace

// Each round ranks the exchanges by what their two halves save alone, then makes those that still
// save when looked at together.
void save_traffic(LayerState& state, const Traffic& traffic, double most) {
  constexpr int kMostRounds = 8;
  const Cluster& cluster = state.layer().cluster;
  const int slots = cluster.slots(), nodes = cluster.nodes();
  const auto node = [&](int s) { return cluster.node_of[cluster.rank_of[s]]; };
  struct Exchange {
    double change;
    int s, q;
  };
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<double> alone(size_t(slots) * nodes);
    for (int s = 0; s < slots; ++s)
      for (int d = 0; d < nodes; ++d)
        if (d != node(s)) alone[size_t(s) * nodes + d] = traffic.change(state, s, d);
    std::vector<Exchange> exchanges;
    for (int s = 0; s < slots; ++s)
      for (int q = s + 1; q < slots; ++q) {
        if (node(s) == node(q)) continue;
        const double change =
            alone[size_t(s) * nodes + node(q)] + alone[size_t(q) * nodes + node(s)];
        if (change < -1e-12 && may_exchange(state, s, q, most)) exchanges.push_back({change, s, q});
      }
    std::stable_sort(exchanges.begin(), exchanges.end(),
                     [](const Exchange& a, const Exchange& b) { return a.change < b.change; });
    bool saved = false;
    std::vector<uint8_t> moved(slots);
    for (const Exchange& x : exchanges) {
      if (moved[x.s] || moved[x.q] || !may_exchange(state, x.s, x.q, most) ||
          traffic.change(state, {x.s, x.q, kEmpty}) >= -1e-12)
        continue;
      state.swap(x.s, x.q);
      moved[x.s] = moved[x.q] = saved = true;
    }
    if (!saved) return;
  }
}

}  // namespace rlx::sched
