// SPDX-License-Identifier: MIT OR Apache-2.0
// Cost: O(rounds * fetches * holders) as a rule.   Tested by test/sched/test_migration.cc
#include "sched/forwarding.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace rlx::sched {
namespace {

class Forwarder {
 public:
  Forwarder(const std::vector<Fetch>& fetches, const Cluster& cluster)
      : fetches_(fetches), wanted_(cluster.ranks()) {
    for (size_t f = 0; f < fetches.size(); ++f) {
      wanted_[fetches[f].to].push_back(static_cast<int>(f));
      holders_[fetches[f].expert] = fetches[f].sources;
      ++waiting_[fetches[f].expert];
    }
  }

  std::vector<Hop> run() {
    std::vector<Hop> hops;
    for (int round = 0; hops.size() < fetches_.size(); ++round) {
      match();
      const size_t first = hops.size();
      for (size_t u = 0; u < fetch_of_.size(); ++u)
        if (fetch_of_[u] >= 0) hops.push_back({fetch_of_[u], static_cast<int>(u), round});
      for (size_t i = first; i < hops.size(); ++i) {
        const Fetch& f = fetches_[hops[i].fetch];
        std::erase(wanted_[f.to], hops[i].fetch);
        holders_[f.expert].push_back(f.to);
        --waiting_[f.expert];
      }
    }
    return hops;
  }

 private:
  // How many ranks wait for a holder of the expert: what is scarce goes first.
  double scarcity(int fetch) const {
    const int32_t e = fetches_[fetch].expert;
    return double(waiting_.at(e)) / static_cast<double>(holders_.at(e).size());
  }

  void match() {
    const int ranks = static_cast<int>(wanted_.size());
    fetch_of_.assign(ranks, -1);
    std::vector<int> order(ranks);
    std::iota(order.begin(), order.end(), 0);
    for (auto& list : wanted_)
      std::stable_sort(list.begin(), list.end(),
                       [&](int a, int b) { return scarcity(a) > scarcity(b); });
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return wanted_[a].size() > wanted_[b].size(); });
    for (int r : order) {
      visited_.assign(ranks, 0);
      augment(r);
    }
  }

  bool augment(int receiver) {
    for (int f : wanted_[receiver])
      for (int u : holders_.at(fetches_[f].expert)) {
        if (visited_[u]) continue;
        visited_[u] = 1;
        if (fetch_of_[u] >= 0 && !augment(fetches_[fetch_of_[u]].to)) continue;
        fetch_of_[u] = f;
        return true;
      }
    return false;
  }

  const std::vector<Fetch>& fetches_;
  std::vector<std::vector<int>> wanted_;         // by rank: fetches still to come
  std::map<int32_t, std::vector<int>> holders_;  // by expert
  std::map<int32_t, int> waiting_;               // by expert: fetches still to come
  std::vector<int> fetch_of_;                    // by sender: what it sends in this round
  std::vector<uint8_t> visited_;
};

}  // namespace

std::vector<Hop> forward(const std::vector<Fetch>& fetches, const Cluster& cluster) {
  return Forwarder(fetches, cluster).run();
}

}  // namespace rlx::sched
