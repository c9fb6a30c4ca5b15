// SPDX-License-Identifier: MIT OR Apache-2.0
// The best placement there is, for small layers.
#pragma once

#include "sched/layer_state.h"

namespace rlx::sched {

inline constexpr int kExactSlots = 16;  // larger layers are left to the search

// Branch and bound over replica counts and placements without duplicates. `placement` is a legal
// one to beat and becomes the best. Returns whether that is proven optimal (even split, all slots
// filled): false when the layer is too large or would take too long, or the rule needs empty slots.
bool exact_placement(const Layer& layer, double bound, std::vector<int32_t>& placement);

}  // namespace rlx::sched
