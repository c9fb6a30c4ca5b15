// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include "sched/level_sources.h"

namespace rlx::sched {

struct Hop {
  int fetch;  // index
  int from;   // rank: a source, or a receiver of an earlier round
  int round;
};

// Every fetch as a hop, where ranks pass on what they received: a tree for experts that many want.
// Round by round a largest matching of senders to receivers, those with most still to receive
// first.
std::vector<Hop> forward(const std::vector<Fetch>& fetches, const Cluster& cluster);

}  // namespace rlx::sched
