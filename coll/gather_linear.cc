// SPDX-License-Identifier: MIT OR Apache-2.0
// Linear gather and gatherv: every rank sends its block to the root.
// Shape: count elements of each rank (gatherv: the root's counts[r] at displs[r]) into the root's
//   output; the root's own block may lie there already; any P, root.
// Cost: one message per rank, P-1 received by the root.
// Order: nothing is reduced.
// Source: folklore.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/blocks.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  if (!shape.is_root()) {
    b.send(shape.root, {Space::in}, shape.n_bytes(), 0);
    return std::move(b).seal();
  }
  for (int r = 0; r < shape.n_ranks; ++r) {
    const Range theirs = block_of(shape, shape.recv, r);
    if (r != shape.root)
      b.recv(r, {Space::out, 0, theirs.first}, theirs.n, 0);
    else if (!shape.in_place)
      b.copy({Space::out, 0, theirs.first}, {Space::in}, theirs.n);
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kGatherLinear = {Coll::gather, "linear", "every block straight to the root",
                                 "folklore",   reject,   blocks_cost_us,
                                 plan};
const Algorithm kGathervLinear = {Coll::gatherv, "linear", "every block straight to the root",
                                  "folklore",    reject,   blocks_cost_us,
                                  plan};

}  // namespace rlx
