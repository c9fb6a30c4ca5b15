// SPDX-License-Identifier: MIT OR Apache-2.0
// A matching of fetches to senders of capacity D; D grows by one whenever no augmenting path is
// left, so the last D is the smallest possible.   Tested by test/sched/test_migration.cc
#include "sched/level_sources.h"

#include <algorithm>

namespace rlx::sched {
namespace {

class Matching {
 public:
  Matching(const std::vector<Fetch>& fetches, const Cluster& cluster)
      : fetches_(fetches),
        cluster_(cluster),
        source_(fetches.size(), -1),
        served_(cluster.ranks()) {
    for (const Fetch& f : fetches) {
      order_.push_back(f.sources);
      std::stable_partition(order_.back().begin(), order_.back().end(),
                            [&](int r) { return is_near(f.to, r); });
    }
  }

  std::vector<int> run() {
    for (size_t f = 0; f < fetches_.size(); ++f) {
      visited_.assign(cluster_.ranks(), 0);
      while (!augment(static_cast<int>(f))) {
        ++capacity_;
        visited_.assign(cluster_.ranks(), 0);
      }
    }
    for (size_t f = 0; f < fetches_.size(); ++f) bring_near(static_cast<int>(f));
    return source_;
  }

 private:
  bool is_near(int a, int b) const { return cluster_.node_of[a] == cluster_.node_of[b]; }
  bool has_room(int rank) const { return static_cast<int>(served_[rank].size()) < capacity_; }
  void give(int fetch, int rank) {
    if (source_[fetch] >= 0) std::erase(served_[source_[fetch]], fetch);
    source_[fetch] = rank;
    served_[rank].push_back(fetch);
  }

  bool augment(int fetch) {
    for (int r : order_[fetch])
      if (has_room(r)) {
        give(fetch, r);
        return true;
      }
    for (int r : order_[fetch]) {
      if (visited_[r]) continue;
      visited_[r] = 1;
      const std::vector<int> served = served_[r];
      for (int other : served)
        if (augment(other)) {
          give(fetch, r);
          return true;
        }
    }
    return false;
  }

  // Serves a far fetch from its own node, if need be by sending a fetch of that source elsewhere at
  // no greater distance.
  void bring_near(int fetch) {
    const int to = fetches_[fetch].to;
    if (is_near(to, source_[fetch])) return;
    for (int r : order_[fetch]) {
      if (!is_near(to, r)) return;
      if (has_room(r)) return give(fetch, r);
      for (int other : served_[r])
        for (int q : order_[other])
          if (has_room(q) && (is_near(fetches_[other].to, q) || !is_near(fetches_[other].to, r))) {
            give(other, q);
            return give(fetch, r);
          }
    }
  }

  const std::vector<Fetch>& fetches_;
  const Cluster& cluster_;
  std::vector<std::vector<int>> order_;   // by fetch: sources, near ones first
  std::vector<int> source_;               // by fetch
  std::vector<std::vector<int>> served_;  // by rank: fetches
  std::vector<uint8_t> visited_;
  int capacity_ = 1;
};

}  // namespace

std::vector<int> level_sources(const std::vector<Fetch>& fetches, const Cluster& cluster) {
  return Matching(fetches, cluster).run();
}

}  // namespace rlx::sched
