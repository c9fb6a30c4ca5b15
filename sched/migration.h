// SPDX-License-Identifier: MIT OR Apache-2.0
// Which slab goes from which rank to which, in which round, to get from one placement to another.
// The old slabs stay readable until a layer's last round: a receiver lands what arrives in spare
// slabs and all ranks commit together, so no copy is lost before its successor is complete.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

inline constexpr int kLocal = -1;  // round: a copy within the rank
inline constexpr int kLost =
    -1;  // from: no live rank holds the expert, reload it from a checkpoint

struct Transfer {
  int layer;
  int32_t expert;
  int from, to;  // ranks
  int from_slot,
      to_slot;  // from_slot is of the old placement, or of the new one where a rank passes
  int round;    // on what it received in an earlier round
  bool forwarded;
};

struct Migration {
  std::vector<Transfer> transfers;  // by layer, in the order in which they can be made
  std::vector<int> rounds;          // by layer; a rank sends and receives one slab a round at most
  std::vector<int> least_rounds;    // by layer: no schedule needs fewer
  std::vector<int64_t> sent, received;  // bytes by rank
  std::vector<int64_t> link;            // bytes, nodes x nodes, from x to
  int spare = 0;                        // slabs a rank has to land in one layer at most
  int lost = 0;                         // transfers from kLost
};

// Ranks fetch only what they lack. Sources are levelled over the replicas, those on the same node
// first where that is no slower; an expert wanted by more ranks than its holders can serve is
// passed on as a tree. Requires placements of the same shape, checked.
Result<Migration> plan_migration(const Placement& before, const Placement& after, int experts,
                                 const Cluster& cluster, int64_t expert_bytes,
                                 std::span<const uint8_t> dead = {});

}  // namespace rlx::sched
