// SPDX-License-Identifier: MIT OR Apache-2.0
// Longest first to the lightest rank that has room and lacks the expert; where every rank with room
// has it already, an expert of a full rank moves over to make room there.
// Cost: O(P log P + P G).   Tested by test/sched/test_search.cc
#include <algorithm>
#include <numeric>

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
        filled_(cluster.ranks()),
        latest_(cluster.ranks(), kEmpty) {}

  // Replicas of one expert come one after the other. False: no rank can take another one.
  bool place(int32_t e, double cost) {
    int best = -1;
    for (int r = 0; r < cluster_.ranks(); ++r)
      if (has_room(r) && latest_[r] != e && (best < 0 || time_[r] < time_[best])) best = r;
    if (best >= 0) return put(best, e, cost);
    for (int r = 0; r < cluster_.ranks(); ++r)
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
  bool put(int r, int32_t e, double cost) {
    const int slot = cluster_.first_slot[r] + filled_[r]++;
    placement_[slot] = e;
    cost_[slot] = cost;
    time_[r] += cost / cluster_.speed[r];
    latest_[r] = e;
    return true;
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
      latest_[giver] = latest_[r] = e;  // r has it too, although f came later
      return true;
    }
    return false;
  }

  const Cluster& cluster_;
  std::vector<int32_t> placement_;
  std::vector<double> cost_;  // by slot
  std::vector<double> time_;
  std::vector<int> filled_;
  std::vector<int32_t> latest_;  // e: the rank has the expert e that is being placed
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
