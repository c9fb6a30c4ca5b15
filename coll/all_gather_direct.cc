// SPDX-License-Identifier: MIT OR Apache-2.0
// Direct all_gather and all_gatherv: every rank sends its block to all others.
// Shape: block of each rank (count, or counts[r] at displs[r] elements) into the same place of all
//   outputs; the own block may lie there already; any P.
// Cost: one round of P-1 messages; S (P-1) bytes sent per rank, S = the own block.
// Order: nothing is reduced.
// Source: Thakur, Rabenseifner, Gropp 2005 (pairwise).   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/blocks.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  const int p = shape.n_ranks, me = shape.rank;
  const Range own = block_of(shape, shape.recv, me);
  for (int i = 1; i < p; ++i) {
    const int from = (me - i + p) % p;
    const Range theirs = block_of(shape, shape.recv, from);
    b.recv(from, {Space::out, 0, theirs.first}, theirs.n, 0);
    b.send((me + i) % p, {Space::in}, own.n, 0);
  }
  if (!shape.in_place) b.copy({Space::out, 0, own.first}, {Space::in}, own.n);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllGatherDirect = {Coll::all_gather,
                                    "direct",
                                    "every block to everyone",
                                    "Thakur, Rabenseifner, Gropp 2005",
                                    reject,
                                    blocks_cost_us,
                                    plan};
const Algorithm kAllGathervDirect = {Coll::all_gatherv,
                                     "direct",
                                     "every block to everyone",
                                     "Thakur, Rabenseifner, Gropp 2005",
                                     reject,
                                     blocks_cost_us,
                                     plan};

}  // namespace rlx
