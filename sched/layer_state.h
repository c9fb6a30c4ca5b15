// SPDX-License-Identifier: MIT OR Apache-2.0
// One layer's placement under change, with every rank's time kept up to date.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

// One layer to place: its loads (a span a window), the ranks and the time model.
struct Layer {
  std::span<const std::span<const double>> windows;
  const Cluster& cluster;
  TimeModel model;

  int experts() const { return static_cast<int>(windows[0].size()); }
};

class LayerState {
 public:
  LayerState(const Layer& layer, std::span<const int32_t> placement);

  const Layer& layer() const { return layer_; }
  const std::vector<int32_t>& placement() const { return expert_; }
  int32_t expert(int slot) const { return expert_[slot]; }
  int copies(int e) const { return static_cast<int>(slots_of_[e].size()); }
  const std::vector<int>& slots_of(int e) const { return slots_of_[e]; }
  uint64_t nodes_of(int e) const { return nodes_of_[e]; }  // a bit a node, the first 64
  bool holds(int rank, int e) const { return held_[size_t(rank) * n_ + e] != 0; }

  // What one replica of e costs a rank of speed 1 if e has `copies` replicas.
  double share(int window, int e, int copies) const {
    const double w = layer_.windows[window][e];
    return w > 0 ? w / copies + layer_.model.fixed_cost : 0;
  }
  double slot_cost(int window, int slot) const { return cost_[size_t(window) * slots_ + slot]; }
  double time(int window, int rank) const { return time_[size_t(window) * ranks_ + rank]; }
  double peak(int window) const { return time(window, hottest(window)); }
  int hottest(int window) const;
  double total_peak() const;  // summed over the windows: what the search minimises

  void assign(int slot, int32_t e);  // kEmpty drops what is there
  void swap(int a, int b);

 private:
  void refresh_cost(int e);
  void refresh_nodes(int e);
  void refresh_time(int rank);

  Layer layer_;
  int n_, slots_, ranks_;
  std::vector<int32_t> expert_;             // by slot
  std::vector<std::vector<int>> slots_of_;  // by expert
  std::vector<uint64_t> nodes_of_;          // by expert
  std::vector<uint16_t> held_;              // ranks x experts: copies
  std::vector<double> cost_;                // windows x slots
  std::vector<double> time_;                // windows x ranks
};

}  // namespace rlx::sched
