// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sched/rlx_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

namespace rlx::sched {
namespace {

std::vector<int32_t> hottest_first(std::span<const double> hits) {
  std::vector<int32_t> order(hits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return hits[a] > hits[b]; });
  return order;
}

// The rank with the least load among those that `fits` accepts, or -1.
template <class Fits>
int lightest(std::span<const double> load, Fits fits) {
  int best = -1;
  for (int r = 0; r < static_cast<int>(load.size()); ++r)
    if (fits(r) && (best < 0 || load[r] < load[best])) best = r;
  return best;
}

}  // namespace

Result<std::vector<int32_t>> rebalance_placement(std::span<const double> hits, int world) {
  const int n = static_cast<int>(hits.size());
  if (world < 1 || n < 1 || n % world)
    return fail(Code::kInvalid,
                fmt::format("{} experts on {} ranks: want a positive multiple", n, world));
  std::vector<int32_t> rank(n);
  std::vector<double> load(world);
  std::vector<int> filled(world);
  for (int32_t e : hottest_first(hits)) {
    const int r = lightest(load, [&](int q) { return filled[q] < n / world; });
    rank[e] = r;
    load[r] += hits[e];
    ++filled[r];
  }
  return rank;
}

Result<ReplicaMap> rebalance_with_replicas(std::span<const double> hits, int world, int slots) {
  const int n = static_cast<int>(hits.size());
  RLX_TRY_ASSIGN(const std::vector<int32_t> primary, rebalance_placement(hits, world));
  if (slots < n || slots % world)
    return fail(Code::kInvalid, fmt::format("{} slots for {} experts on {} ranks: want at least a "
                                            "slot an expert and a multiple of the ranks",
                                            slots, n, world));
  ReplicaMap map{std::vector<std::vector<int32_t>>(n), std::vector<std::vector<int32_t>>(world)};
  std::vector<double> load(world);
  const auto give = [&](int32_t e, int r) {
    map.owners[e].push_back(r);
    map.local_slots[r].push_back(e);
    load[r] += hits[e];
  };
  for (int32_t e = 0; e < n; ++e) give(e, primary[e]);
  const std::vector<int32_t> order = hottest_first(hits);
  const auto lacks = [&](int32_t e, int r) {
    return static_cast<int>(map.local_slots[r].size()) < slots / world &&
           std::find(map.owners[e].begin(), map.owners[e].end(), r) == map.owners[e].end();
  };
  size_t next = 0;  // whoever cannot be placed now cannot be placed later either
  for (int extra = slots - n; extra > 0;) {
    if (next == order.size())
      return fail(Code::kInvalid,
                  fmt::format("{} of {} slots stay free: every rank with room holds "
                              "every expert already",
                              extra, slots));
    const int32_t e = order[next];
    const int r = lightest(load, [&](int q) { return lacks(e, q); });
    if (r < 0) {
      ++next;
      continue;
    }
    give(e, r);
    --extra;
  }
  for (auto& ranks : map.owners) std::sort(ranks.begin(), ranks.end());
  for (auto& experts : map.local_slots) std::sort(experts.begin(), experts.end());
  return map;
}

}  // namespace rlx::sched
