// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: divisor method of Adams; pigeonhole bounds for the case without replicas.
// Tested by test/sched/test_bound.cc
#include "sched/bound.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>

namespace rlx::sched {

std::vector<int> optimal_copies(std::span<const double> load, int slots, int most) {
  const int n = static_cast<int>(load.size());
  std::vector<int> copies(n, 1);
  using Key = std::tuple<double, int, int>;  // share, -copies, -id: the largest goes first
  std::priority_queue<Key> queue;
  if (most > 1)
    for (int e = 0; e < n; ++e) queue.emplace(load[e], -1, -e);
  for (int left = slots - n; left > 0 && !queue.empty(); --left) {
    const int e = -std::get<2>(queue.top());
    queue.pop();
    if (++copies[e] < most) queue.emplace(load[e] / copies[e], -copies[e], -e);
  }
  return copies;
}

namespace {

double bound_of(std::span<const double> load, const Cluster& cluster, const TimeModel& model) {
  const int n = static_cast<int>(load.size()), slots = cluster.slots();
  const double fastest = *std::max_element(cluster.speed.begin(), cluster.speed.end());
  double work = 0, share = 0;
  const std::vector<int> copies = optimal_copies(load, slots, cluster.ranks());
  for (int e = 0; e < n; ++e) {
    if (load[e] <= 0) continue;
    work += load[e] + model.fixed_cost;
    share = std::max(share, load[e] / copies[e] + model.fixed_cost);
  }
  const double speed = std::accumulate(cluster.speed.begin(), cluster.speed.end(), 0.0);
  double bound = std::max(work / speed, share / fastest);
  if (slots != n) return bound;
  // No replicas: every slot is filled with another expert. The heaviest shares its rank with at
  // least the lightest ones, and two of the ranks + 1 heaviest meet somewhere.
  std::vector<double> cost(load.begin(), load.end());
  for (double& c : cost) c += c > 0 ? model.fixed_cost : 0;
  std::sort(cost.begin(), cost.end(), std::greater<>());
  int room = slots;
  for (int r = 0; r < cluster.ranks(); ++r) room = std::min(room, cluster.slots_of(r));
  if (room >= 1)
    bound =
        std::max(bound, std::accumulate(cost.end() - (room - 1), cost.end(), cost[0]) / fastest);
  if (n > cluster.ranks())
    bound = std::max(bound, (cost[cluster.ranks() - 1] + cost[cluster.ranks()]) / fastest);
  return bound;
}

}  // namespace

double lower_bound(std::span<const std::span<const double>> windows, const Cluster& cluster,
                   const TimeModel& model) {
  double bound = 0;
  for (const auto load : windows) bound += bound_of(load, cluster, model);
  return bound;
}

}  // namespace rlx::sched
