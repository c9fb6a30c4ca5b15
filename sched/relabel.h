// SPDX-License-Identifier: MIT OR Apache-2.0
// A plan says which experts live together, not which rank that is: choose the ranks that hold most
// of them already.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

// Renames ranks of equal slots and speed (and, with keep_nodes, whole nodes and the ranks in them)
// so that `after` needs as few fetches from `before` as possible; experts that stay keep their
// slot. Exact up to 512 ranks a node; beyond, the largest overlaps are taken first.
std::vector<int32_t> relabel(std::span<const int32_t> before, std::span<const int32_t> after,
                             const Cluster& cluster, bool keep_nodes);

// Within every rank, experts that `before` has on it too get their old slot back.
void keep_slots(std::span<const int32_t> before, std::span<int32_t> after, const Cluster& cluster);

}  // namespace rlx::sched
