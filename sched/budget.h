// SPDX-License-Identifier: MIT OR Apache-2.0
// One budget of fetches over many layers: spend it where a fetch saves most time.
#pragma once

#include <cstdint>
#include <vector>

namespace rlx::sched {

// What a layer can have: `cost` (time of its slowest rank) for `fetches`.
struct Option {
  int fetches;
  double cost;
};

struct Pick {
  int layer, option;
};

// Follows the lower convex hulls of the options, steepest segment first, up to `most` fetches (-1:
// to the end); what is left then goes to single options above the hulls. Every layer's cheapest
// option is taken in any case. Returns all picks in order; a layer's last one counts.
std::vector<Pick> spend(const std::vector<std::vector<Option>>& layers, int64_t most);

}  // namespace rlx::sched
