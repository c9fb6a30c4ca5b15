// SPDX-License-Identifier: MIT OR Apache-2.0
// The placements of the last workloads: a load that comes back needs no search, and its slabs may
// still be there.
#pragma once

#include <list>

#include "sched/types.h"

namespace rlx::sched {

class PlanCache {
 public:
  explicit PlanCache(int capacity) : capacity_(capacity) {}

  void put(const Placement& placement);  // forgets the least recently used
  struct Hit {
    Placement placement;
    double balance;  // mean over peak under the loads asked for, average of the layers
  };
  // The placement that balances these loads best; kAgain if none has their shape.
  Result<Hit> best(const Loads& loads, const Cluster& cluster, const TimeModel& model = {});
  size_t size() const { return plans_.size(); }

 private:
  int capacity_;
  std::list<Placement> plans_;  // latest use first
};

// Average over the layers of mean over peak, each summed over the windows.
double mean_balance(const Loads& loads, const Placement& placement, const Cluster& cluster,
                    const TimeModel& model = {});

}  // namespace rlx::sched
