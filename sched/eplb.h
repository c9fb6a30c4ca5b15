// SPDX-License-Identifier: MIT OR Apache-2.0
// DeepSeek's expert-parallelism load balancer, decision for decision, with stable ties.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

// Plans every layer of the first window from scratch. Hierarchical (whole groups on a node, then
// replicas within the node) when the nodes divide the groups and have equally many ranks, else
// global. Requires: experts % groups == 0, slots % ranks == 0, slots >= experts. Ties go to the
// lower index where the original's sort leaves them open. Loads are 64-bit floats: counts above
// 2^24 keep their order, which the original's 32-bit ones do not. May put two replicas of an expert
// on one rank, as the original does.
Result<Placement> deepseek_eplb(const Loads& loads, const Cluster& cluster, int groups);

}  // namespace rlx::sched
