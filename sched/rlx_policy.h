// SPDX-License-Identifier: MIT OR Apache-2.0
// The two policies of the RLX system, kept for programs that rely on their exact choices.
// They balance raw hits: a replica is charged with all hits of its expert. policy search does
// better.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

// Experts by descending hits (ties: lower id), each to the rank with the fewest hits so far that
// has fewer than experts / world of them (ties: lower rank). Returns the rank of every expert.
// Requires: world >= 1, experts >= 1 and a multiple of world.
Result<std::vector<int32_t>> rebalance_placement(std::span<const double> hits, int world);

struct ReplicaMap {
  std::vector<std::vector<int32_t>> owners;       // by expert: ranks, ascending
  std::vector<std::vector<int32_t>> local_slots;  // by rank: experts, ascending
};

// rebalance_placement, then slots - experts times: the hottest expert that some rank with a free
// slot lacks (ties: lower id) goes to such a rank with the fewest hits (ties: lower rank), which is
// charged with all its hits. Requires: slots >= experts, slots a multiple of world. Errors:
// kInvalid when no expert can be replicated any further.
Result<ReplicaMap> rebalance_with_replicas(std::span<const double> hits, int world, int slots);

}  // namespace rlx::sched
