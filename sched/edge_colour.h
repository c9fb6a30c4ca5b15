// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <vector>

namespace rlx::sched {

struct Edge {
  int from, to;  // a sender and a receiver; parallel edges are allowed
};

// A round for every edge so that no round uses a sender or a receiver twice. The number of rounds
// is the largest degree, which no schedule can beat.
std::vector<int> colour_edges(const std::vector<Edge>& edges, int vertices);

}  // namespace rlx::sched
