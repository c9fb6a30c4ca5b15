// SPDX-License-Identifier: MIT OR Apache-2.0
// Cost: exponential in the slots; gives up after kMostNodes, tens of milliseconds.
// Tested by test/sched/test_oracle.cc
#include "sched/exact.h"

#include <algorithm>
#include <numeric>

namespace rlx::sched {
namespace {

constexpr int kMostNodes = 2'000'000;

class Exact {
 public:
  Exact(const Layer& layer, double bound, std::vector<int32_t>& best)
      : layer_(layer),
        windows_(static_cast<int>(layer.windows.size())),
        ranks_(layer.cluster.ranks()),
        bound_(bound),
        best_(best),
        best_peak_(LayerState(layer, best).total_peak()),
        copies_(layer.experts(), 1),
        order_(layer.experts()),
        time_(size_t(windows_) * ranks_),
        held_(ranks_),
        holds_(ranks_, -1) {}

  bool run() {
    choose_copies(0, layer_.cluster.slots() - layer_.experts());
    return nodes_ < kMostNodes;
  }

 private:
  bool done() const { return nodes_ >= kMostNodes || best_peak_ <= bound_ * (1 + 1e-12); }
  double share(int t, int e) const {
    const double w = layer_.windows[t][e];
    return w > 0 ? w / copies_[e] + layer_.model.fixed_cost : 0;
  }

  void choose_copies(int e, int left) {
    if (done()) return;
    ++nodes_;
    if (e == layer_.experts()) {
      if (left == 0) place_all();
      return;
    }
    const int most = std::min(ranks_ - 1, left);
    if (left > (layer_.experts() - e) * (ranks_ - 1)) return;
    for (int extra = 0; extra <= most; ++extra) {
      copies_[e] = 1 + extra;
      choose_copies(e + 1, left - extra);
    }
    copies_[e] = 1;
  }

  void place_all() {
    double total[2];
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
      for (int i = 0; i < 2; ++i) {
        total[i] = 0;
        for (int t = 0; t < windows_; ++t) total[i] += share(t, i ? b : a);
      }
      return total[0] > total[1];
    });
    place(0, 0, 0);
  }

  // Puts replica `copy` of the index-th expert on a rank from `first` on.
  void place(int index, int copy, int first) {
    if (done()) return;
    ++nodes_;
    if (index == layer_.experts()) return keep();
    const int e = order_[index];
    if (copy == copies_[e]) {
      const std::vector<int> saved = holds_;
      holds_.assign(ranks_, -1);
      place(index + 1, 0, 0);
      holds_ = saved;
      return;
    }
    for (int r = first; r < ranks_; ++r) {
      if (static_cast<int>(held_[r].size()) == layer_.cluster.slots_of(r) || has_twin(r, e))
        continue;
      add(r, e, 1);
      if (peak() < best_peak_ * (1 - 1e-12)) place(index, copy + 1, r + 1);
      add(r, e, -1);
    }
  }

  // A lower rank in the same state that e does not use: placing e there is the same placement.
  bool has_twin(int r, int e) const {
    const Cluster& cluster = layer_.cluster;
    for (int q = 0; q < r; ++q) {
      if (holds_[q] == e || held_[q].size() != held_[r].size() ||
          cluster.slots_of(q) != cluster.slots_of(r) || cluster.speed[q] != cluster.speed[r])
        continue;
      bool same = true;
      for (int t = 0; t < windows_; ++t)
        same &= time_[size_t(t) * ranks_ + q] == time_[size_t(t) * ranks_ + r];
      if (same) return true;
    }
    return false;
  }

  void add(int r, int e, int sign) {
    if (sign > 0)
      held_[r].push_back(e);
    else
      held_[r].pop_back();
    holds_[r] = sign > 0 ? e : -1;
    for (int t = 0; t < windows_; ++t) {  // from scratch: no drift
      double sum = 0;
      for (int x : held_[r]) sum += share(t, x);
      time_[size_t(t) * ranks_ + r] = sum / layer_.cluster.speed[r];
    }
  }

  double peak() const {
    double sum = 0;
    for (int t = 0; t < windows_; ++t)
      sum += *std::max_element(&time_[size_t(t) * ranks_], &time_[size_t(t) * ranks_] + ranks_);
    return sum;
  }

  void keep() {
    best_peak_ = peak();
    for (int r = 0; r < ranks_; ++r)
      std::copy(held_[r].begin(), held_[r].end(), &best_[layer_.cluster.first_slot[r]]);
  }

  const Layer& layer_;
  const int windows_, ranks_;
  const double bound_;
  std::vector<int32_t>& best_;
  double best_peak_;
  int nodes_ = 0;
  std::vector<int> copies_, order_;
  std::vector<double> time_;            // windows x ranks
  std::vector<std::vector<int>> held_;  // by rank
  std::vector<int> holds_;              // by rank: the expert being placed, or -1
};

}  // namespace

bool exact_placement(const Layer& layer, double bound, std::vector<int32_t>& placement) {
  const int slots = layer.cluster.slots(), ranks = layer.cluster.ranks();
  if (slots > kExactSlots || slots > layer.experts() * ranks ||
      std::find(placement.begin(), placement.end(), kEmpty) != placement.end())
    return false;
  return Exact(layer, bound, placement).run();
}

}  // namespace rlx::sched
