// SPDX-License-Identifier: MIT OR Apache-2.0
// From a placement that somebody else made to a legal and full one.
// Tested by test/sched/test_search.cc
#include "sched/search.h"

namespace rlx::sched {
namespace {

// The slot whose expert has most replicas (or none), so that losing it hurts least.
int most_spare_slot(const LayerState& state, int32_t e) {
  const Cluster& cluster = state.layer().cluster;
  int best = -1, best_copies = 1;
  for (int s = 0; s < cluster.slots(); ++s) {
    if (state.expert(s) == kEmpty) return s;
    const int copies = state.copies(state.expert(s));
    if (copies > best_copies && !state.holds(cluster.rank_of[s], e)) {
      best = s;
      best_copies = copies;
    }
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
  for (int e = 0; e < state.layer().experts(); ++e)
    if (state.copies(e) == 0) state.assign(most_spare_slot(state, e), e);
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
