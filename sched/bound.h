// SPDX-License-Identifier: MIT OR Apache-2.0
// How many replicas each expert should have, and how good any placement can be at all.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

// Replica counts that minimise the largest load a replica, at least 1 and at most `most` each:
// Adams' apportionment, optimal for that objective. Equal shares go to whoever has fewer replicas,
// then to the lower id, so a layer without load is spread evenly. Hands out `slots` or n * most.
// Requires: slots >= n, most >= 1.
std::vector<int> optimal_copies(std::span<const double> load, int slots, int most);

// No placement of one layer has a smaller sum over the windows of the slowest rank's time, however
// it splits tokens over replicas (no duplicates on a rank).
double lower_bound(std::span<const std::span<const double>> windows, const Cluster& cluster,
                   const TimeModel& model = {});

}  // namespace rlx::sched
