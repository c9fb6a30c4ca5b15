// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sched/plan_cache.h"

#include <algorithm>

namespace rlx::sched {

double mean_balance(const Loads& loads, const Placement& placement, const Cluster& cluster,
                    const TimeModel& model) {
  double sum = 0;
  for (int l = 0; l < loads.layers; ++l) {
    Balance total;
    for (int t = 0; t < loads.windows; ++t) {
      const Balance b = balance_of(rank_times(loads.row(t, l), placement.row(l), cluster, model));
      total.mean += b.mean;
      total.peak += b.peak;
    }
    sum += total.ratio();
  }
  return sum / loads.layers;
}

void PlanCache::put(const Placement& placement) {
  plans_.remove(placement);
  plans_.push_front(placement);
  if (static_cast<int>(plans_.size()) > capacity_) plans_.pop_back();
}

Result<PlanCache::Hit> PlanCache::best(const Loads& loads, const Cluster& cluster,
                                       const TimeModel& model) {
  RLX_TRY(check_loads(loads));
  auto found = plans_.end();
  double balance = -1;
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if (!check_placement(*it, loads, cluster)) continue;
    const double b = mean_balance(loads, *it, cluster, model);
    if (b > balance) {
      balance = b;
      found = it;
    }
  }
  if (found == plans_.end()) return fail(Code::kAgain, "no placement of this shape is cached");
  plans_.splice(plans_.begin(), plans_, found);
  return Hit{plans_.front(), balance};
}

}  // namespace rlx::sched
