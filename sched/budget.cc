// SPDX-License-Identifier: MIT OR Apache-2.0
// Tested by test/sched/test_budget.cc
#include "sched/budget.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <tuple>

namespace rlx::sched {
namespace {

// Indices of the options on the lower convex hull, fetches ascending, cost falling.
std::vector<int> hull_of(const std::vector<Option>& options) {
  std::vector<int> order(options.size()), hull;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return std::tie(options[a].fetches, options[a].cost) <
           std::tie(options[b].fetches, options[b].cost);
  });
  const auto slope = [&](int a, int b) {
    return (options[b].cost - options[a].cost) / (options[b].fetches - options[a].fetches);
  };
  for (int i : order) {
    if (!hull.empty() && (options[i].cost >= options[hull.back()].cost * (1 - 1e-12) ||
                          options[i].fetches == options[hull.back()].fetches))
      continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), i))
      hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

}  // namespace

std::vector<Pick> spend(const std::vector<std::vector<Option>>& layers, int64_t most) {
  std::vector<Pick> picks;
  std::vector<std::vector<int>> hulls;
  std::vector<size_t> at(layers.size());  // on the hull
  int64_t fetches = 0;
  std::priority_queue<std::tuple<double, int>> queue;  // cost saved a fetch, -layer
  const auto offer = [&](int l) {
    if (at[l] + 1 >= hulls[l].size()) return;
    const Option &a = layers[l][hulls[l][at[l]]], &b = layers[l][hulls[l][at[l] + 1]];
    queue.emplace((a.cost - b.cost) / (b.fetches - a.fetches), -l);
  };
  for (int l = 0; l < static_cast<int>(layers.size()); ++l) {
    hulls.push_back(hull_of(layers[l]));
    picks.push_back({l, hulls[l][0]});
    fetches += layers[l][hulls[l][0]].fetches;
    offer(l);
  }
  while (!queue.empty()) {
    const int l = -std::get<1>(queue.top());
    queue.pop();
    const Option& now = layers[l][hulls[l][at[l]]];
    const auto fits = [&](const Option& o) {
      return most < 0 || fetches + o.fetches - now.fetches <= most;
    };
    int next = hulls[l][at[l] + 1];
    if (fits(layers[l][next])) {
      ++at[l];
      offer(l);
    } else {
      next = -1;
      double cost = now.cost;
      for (int i = 0; i < static_cast<int>(layers[l].size()); ++i)
        if (layers[l][i].cost < cost && fits(layers[l][i])) {
          cost = layers[l][i].cost;
          next = i;
        }
      if (next < 0) continue;
    }
    picks.push_back({l, next});
    fetches += layers[l][next].fetches - now.fetches;
  }
  return picks;
}

}  // namespace rlx::sched
