// SPDX-License-Identifier: MIT OR Apache-2.0
// From a placement that somebody else made to a legal and full one.
// Tested by test/sched/test_search.cc
#include <algorithm>

#include "sched/search.h"

namespace rlx::sched {
namespace {

// The slowest of the ranks that notice if `slot` gets e: its own and those of the expert that goes.
double peak_with(const LayerState& state, int slot, int32_t e) {
  const Cluster& cluster = state.layer().cluster;
  const int32_t gone = state.expert(slot);
  const int rank = cluster.rank_of[slot];
  double sum = 0;
  for (int t = 0; t < static_cast<int>(state.layer().windows.size()); ++t) {
    double peak = state.time(t, rank) +
                  (state.share(t, e, 1) - state.slot_cost(t, slot)) / cluster.speed[rank];
    for (int s : gone == kEmpty ? std::vector<int>() : state.slots_of(gone)) {
      const int r = cluster.rank_of[s];
      const double more = state.share(t, gone, state.copies(gone) - 1) - state.slot_cost(t, s);
      if (s != slot) peak = std::max(peak, state.time(t, r) + more / cluster.speed[r]);
    }
    sum += peak;
  }
  return sum;
}

// For an expert without a replica: an empty slot or one whose expert has others.
int best_spare_slot(const LayerState& state, int32_t e) {
  int best = -1;
  double least = 0;
  for (int s = 0; s < state.layer().cluster.slots(); ++s) {
    if (state.expert(s) != kEmpty && state.copies(state.expert(s)) < 2) continue;
    const double peak = peak_with(state, s, e);
    if (best >= 0 && peak >= least) continue;
    best = s;
    least = peak;
  }
  return best;
}

// What the busiest of its ranks would be rid of with one more replica of e.
double relief(const LayerState& state, int e) {
  double sum = 0;
  for (int t = 0; t < static_cast<int>(state.layer().windows.size()); ++t)
    sum += state.share(t, e, state.copies(e)) - state.share(t, e, state.copies(e) + 1);
  return sum;
}

}  // namespace

void repair(LayerState& state) {
  const Cluster& cluster = state.layer().cluster;
  for (int s = 0; s < cluster.slots(); ++s) {
    const int begin = cluster.first_slot[cluster.rank_of[s]];
    for (int q = begin; q < s && state.expert(s) != kEmpty; ++q)
      if (state.expert(q) == state.expert(s)) state.assign(s, kEmpty);
  }
  std::vector<int> missing;  // heaviest first
  for (int e = 0; e < state.layer().experts(); ++e)
    if (state.copies(e) == 0) missing.push_back(e);
  const auto load = [&](int e) {
    double sum = 0;
    for (const auto window : state.layer().windows) sum += window[e];
    return sum;
  };
  std::stable_sort(missing.begin(), missing.end(), [&](int a, int b) { return load(a) > load(b); });
  for (int e : missing) state.assign(best_spare_slot(state, e), e);
}

void fill(LayerState& state) {
  const Cluster& cluster = state.layer().cluster;
  for (int s = 0; s < cluster.slots(); ++s) {
    if (state.expert(s) != kEmpty) continue;
    const int rank = cluster.rank_of[s];
    int best = kEmpty;
    for (int e = 0; e < state.layer().experts(); ++e)
      if (!state.holds(rank, e) && (best == kEmpty || relief(state, e) > relief(state, best)))
        best = e;
    state.assign(s, best);
  }
}

}  // namespace rlx::sched
