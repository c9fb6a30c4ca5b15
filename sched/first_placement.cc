// SPDX-License-Identifier: MIT OR Apache-2.0
// Longest first to the lightest rank that has room and lacks the expert; where every rank with room
// has it already, an expert of a full rank moves over to make room there.
// Cost: O(P log P).   Tested by test/sched/test_search.cc
#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "sched/bound.h"
#include "sched/search.h"

namespace rlx::sched {
namespace {

class Packer {
 public:
  explicit Packer(const Cluster& cluster)
      : cluster_(cluster),
        placement_(cluster.slots(), kEmpty),
        cost_(cluster.slots()),
        time_(cluster.ranks()),
        filled_(cluster.ranks()) {
    for (int r = 0; r < cluster.ranks(); ++r)
      if (has_room(r)) open_.emplace(0, r);
  }

  // Replicas of one expert come one after the other. False: no rank can take another one.
  bool place(int32_t e, double cost) {
    if (e != placing_) {
      for (int r : waiting_)
        if (has_room(r)) open_.emplace(time_[r], r);
      waiting_.clear();
      placing_ = e;
    }
    if (!open_.empty()) {
      const int r = open_.top().second;
      open_.pop();
      put(r, e, cost);
      waiting_.push_back(r);
      return true;
    }
    for (int r : waiting_)
      if (has_room(r) && pass_on(r, e, cost)) return true;
    return false;
  }
  std::vector<int32_t> take() { return std::move(placement_); }

 private:
  bool has_room(int r) const { return filled_[r] < cluster_.slots_of(r); }
  bool holds(int r, int32_t e) const {
    const auto begin = placement_.begin() + cluster_.first_slot[r];
    return std::find(begin, begin + filled_[r], e) != begin + filled_[r];
  }
  void put(int r, int32_t e, double cost) {
    const int slot = cluster_.first_slot[r] + filled_[r]++;
    placement_[slot] = e;
    cost_[slot] = cost;
    time_[r] += cost / cluster_.speed[r];
  }
  bool pass_on(int r, int32_t e, double cost) {
    for (int s = 0; s < cluster_.slots(); ++s) {
      const int32_t f = placement_[s];
      const int giver = cluster_.rank_of[s];
      if (f == kEmpty || holds(giver, e) || holds(r, f)) continue;
      put(r, f, cost_[s]);
      time_[giver] += (cost - cost_[s]) / cluster_.speed[giver];
      placement_[s] = e;
      cost_[s] = cost;
      return true;
    }
    return false;
  }

  const Cluster& cluster_;
  std::vector<int32_t> placement_;
  std::vector<double> cost_;  // by slot
  std::vector<double> time_;
  std::vector<int> filled_;
  // Ranks with room that lack the expert being placed, lightest first, and those that have it.
  using Open = std::pair<double, int>;
  std::priority_queue<Open, std::vector<Open>, std::greater<>> open_;
  std::vector<int> waiting_;
  int32_t placing_ = kEmpty;
};

}  // namespace

std::vector<int32_t> first_placement(const Layer& layer) {
  std::vector<double> load(layer.experts());
  for (const auto window : layer.windows)
    for (size_t e = 0; e < load.size(); ++e) load[e] += window[e];
  const std::vector<int> copies =
      optimal_copies(load, layer.cluster.slots(), layer.cluster.ranks());
  const auto share = [&](int e) { return load[e] / copies[e]; };
  std::vector<int> order(load.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return share(a) > share(b); });
  Packer packer(layer.cluster);
  for (int e : order)
    for (int c = 0; c < copies[e]; ++c)
      if (!packer.place(e, share(e) + (load[e] > 0 ? layer.model.fixed_cost : 0))) break;
  return packer.take();
}

}  // namespace rlx::sched
