// SPDX-License-Identifier: MIT OR Apache-2.0
// From where a layer is to where it could be: every point on the way, so that all layers together
// can choose under one budget.
#pragma once

#include "sched/budget.h"
#include "sched/search.h"

namespace rlx::sched {

struct LayerPaths {
  std::vector<int32_t> start;  // a legal placement: the existing one repaired, or a first one
  std::vector<Step> steps;     // improves `start` move by move
  std::vector<int32_t>
      scratch;  // a plan that ignores what exists, ranks renamed to fit it; or empty
  std::vector<Option> options;  // after 0, 1, ... steps, then `scratch`
  bool optimal = false;         // the last option is proven to have the least peak
};

// `from`: the existing placement, empty if there is none (then `scratch` is all there is).
LayerPaths find_paths(const Layer& layer, double bound, double gap, std::span<const int32_t> from,
                      bool allow_empty);

// The same with a price on moves, from `start` (legal or not) on.
LayerPaths find_priced_paths(const Layer& layer, double bound, std::span<const int32_t> start,
                             const SearchOptions& options);

std::vector<int32_t> placement_at(const Layer& layer, const LayerPaths& paths, int option);

}  // namespace rlx::sched
