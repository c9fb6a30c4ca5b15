// SPDX-License-Identifier: MIT OR Apache-2.0
// Placement by local search: no expert twice on a rank, the slowest rank as fast as it will get.
#pragma once

#include <functional>

#include "sched/layer_state.h"

namespace rlx::sched {

// One change of one layer. With `other` >= 0 the two slots exchange experts, else `slot` gets
// `expert` (kEmpty: drops its replica).
struct Move {
  int slot = -1, other = -1;
  int32_t expert = kEmpty;
};
void apply(LayerState& state, const Move& move);

struct Step {
  Move move;
  double peak;  // total_peak() after it
  int fetches;  // slots to fetch so far, against SearchOptions::old
};

struct SearchOptions {
  double gap = 3e-4;             // good enough: peak <= (1 + gap) * bound
  std::span<const int32_t> old;  // where the slabs are now; empty: moves are free
  bool allow_empty = false;      // may drop replicas that do not help
  // What a move costs besides fetches, in fetches; nullptr: nothing.
  std::function<double(const LayerState&, const Move&)> price;
};

// A placement from scratch: optimal counts, longest first, no duplicates. Slots stay empty only
// where every expert is on every rank already. Requires: slots >= experts.
std::vector<int32_t> first_placement(const Layer& layer);
// Makes `state` legal with as few fetches as possible: no duplicates on a rank, every expert
// somewhere, missing ones where they slow the layer down least. Requires: slots >= experts.
void repair(LayerState& state);
// Puts one more replica into every empty slot: of the expert without one on that rank that has most
// load a replica. Slots stay empty only where a rank has every expert.
void fill(LayerState& state);
// Improves `state` move by move until it is good enough or nothing helps.
std::vector<Step> search(LayerState& state, double bound, const SearchOptions& options);

}  // namespace rlx::sched
