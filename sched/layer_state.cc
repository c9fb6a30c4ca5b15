// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sched/layer_state.h"

#include <algorithm>

namespace rlx::sched {

LayerState::LayerState(const Layer& layer, std::span<const int32_t> placement)
    : layer_(layer),
      n_(layer.experts()),
      slots_(layer.cluster.slots()),
      ranks_(layer.cluster.ranks()),
      expert_(placement.begin(), placement.end()),
      slots_of_(n_),
      nodes_of_(n_),
      held_(size_t(ranks_) * n_),
      cost_(layer.windows.size() * slots_),
      time_(layer.windows.size() * ranks_) {
  for (int s = 0; s < slots_; ++s) {
    if (expert_[s] == kEmpty) continue;
    slots_of_[expert_[s]].push_back(s);
    ++held_[size_t(layer_.cluster.rank_of[s]) * n_ + expert_[s]];
  }
  for (int e = 0; e < n_; ++e) {
    refresh_cost(e);
    refresh_nodes(e);
  }
  for (int r = 0; r < ranks_; ++r) refresh_time(r);
}

int LayerState::hottest(int window) const {
  const double* row = &time_[size_t(window) * ranks_];
  return static_cast<int>(std::max_element(row, row + ranks_) - row);
}

double LayerState::total_peak() const {
  double sum = 0;
  for (size_t t = 0; t < layer_.windows.size(); ++t) sum += peak(static_cast<int>(t));
  return sum;
}

void LayerState::refresh_cost(int e) {
  for (size_t t = 0; t < layer_.windows.size(); ++t) {
    const double cost = share(static_cast<int>(t), e, copies(e));
    for (int s : slots_of_[e]) cost_[t * slots_ + s] = cost;
  }
}

void LayerState::refresh_nodes(int e) {
  const Cluster& cluster = layer_.cluster;
  nodes_of_[e] = 0;
  for (int s : slots_of_[e])
    nodes_of_[e] |= uint64_t{1} << (cluster.node_of[cluster.rank_of[s]] % 64);
}

// From scratch, so that times never drift from what the placement says.
void LayerState::refresh_time(int rank) {
  for (size_t t = 0; t < layer_.windows.size(); ++t) {
    double sum = 0;
    for (int s = layer_.cluster.first_slot[rank]; s < layer_.cluster.first_slot[rank + 1]; ++s)
      sum += cost_[t * slots_ + s];
    time_[t * ranks_ + rank] = sum / layer_.cluster.speed[rank];
  }
}

void LayerState::assign(int slot, int32_t e) {
  const int rank = layer_.cluster.rank_of[slot];
  const int32_t old = expert_[slot];
  if (old == e) return;
  expert_[slot] = e;
  for (size_t t = 0; t < layer_.windows.size(); ++t) cost_[t * slots_ + slot] = 0;
  if (old != kEmpty) {
    std::erase(slots_of_[old], slot);
    --held_[size_t(rank) * n_ + old];
    refresh_cost(old);
  }
  if (e != kEmpty) {
    slots_of_[e].push_back(slot);
    ++held_[size_t(rank) * n_ + e];
    refresh_cost(e);
  }
  refresh_time(rank);
  for (int32_t changed : {old, e}) {
    if (changed == kEmpty) continue;
    refresh_nodes(changed);
    for (int s : slots_of_[changed]) refresh_time(layer_.cluster.rank_of[s]);
  }
}

void LayerState::swap(int a, int b) {
  const int rank[2] = {layer_.cluster.rank_of[a], layer_.cluster.rank_of[b]};
  const int slot[2] = {a, b};
  for (int i = 0; i < 2; ++i) {
    const int32_t e = expert_[slot[i]];
    if (e == kEmpty) continue;
    std::replace(slots_of_[e].begin(), slots_of_[e].end(), slot[i], slot[1 - i]);
    --held_[size_t(rank[i]) * n_ + e];
    ++held_[size_t(rank[1 - i]) * n_ + e];
  }
  std::swap(expert_[a], expert_[b]);
  for (size_t t = 0; t < layer_.windows.size(); ++t)
    std::swap(cost_[t * slots_ + a], cost_[t * slots_ + b]);
  for (int s : slot)
    if (expert_[s] != kEmpty) refresh_nodes(expert_[s]);
  refresh_time(rank[0]);
  refresh_time(rank[1]);
}

}  // namespace rlx::sched
