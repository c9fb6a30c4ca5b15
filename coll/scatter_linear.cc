// SPDX-License-Identifier: MIT OR Apache-2.0
// Linear scatter and scatterv: the root sends every rank its block.
// Shape: block r of the root's input (count elements, scatterv: the root's counts[r] at displs[r])
//   into rank r's output; the root's own block may stay where it is; any P, root.
// Cost: P-1 messages sent by the root, one received per rank.
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
    b.recv(shape.root, {Space::out}, shape.n_bytes(), 0);
    return std::move(b).seal();
  }
  for (int i = 1; i < shape.n_ranks; ++i) {
    const int peer = (shape.root + i) % shape.n_ranks;
    const Range theirs = block_of(shape, shape.send, peer);
    b.send(peer, {Space::in, 0, theirs.first}, theirs.n, 0);
  }
  const Range own = block_of(shape, shape.send, shape.root);
  if (!shape.in_place) b.copy({Space::out}, {Space::in, 0, own.first}, own.n);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kScatterLinear = {Coll::scatter, "linear", "every block straight to its rank",
                                  "folklore",    reject,   blocks_cost_us,
                                  plan};
const Algorithm kScattervLinear = {
    Coll::scatterv, "linear", "every block straight to its rank", "folklore", reject,
    blocks_cost_us, plan};

}  // namespace rlx
