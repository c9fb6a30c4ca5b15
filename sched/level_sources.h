// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "sched/types.h"

namespace rlx::sched {

struct Fetch {
  int32_t expert;
  int to;                    // rank
  std::vector<int> sources;  // ranks that hold it, at least one
};

// A source for every fetch so that the busiest sender sends as little as possible; among these, as
// many as a local search finds come from the receiver's own node.
std::vector<int> level_sources(const std::vector<Fetch>& fetches, const Cluster& cluster);

}  // namespace rlx::sched
