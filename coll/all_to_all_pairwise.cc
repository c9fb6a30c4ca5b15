// SPDX-License-Identifier: MIT OR Apache-2.0
// Pairwise all_to_all and all_to_allv: in step i rank r sends to r + i and receives from r - i; all
// steps are posted at once.
// Shape: block d of the input to rank d, block s of the output from rank s (count elements each, or
//   as the v form says); not in place; any P.
// Cost: P-1 messages sent and received per rank.
// Order: nothing is reduced.
// Source: Thakur, Rabenseifner, Gropp 2005.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/blocks.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  const int p = shape.n_ranks, me = shape.rank;
  for (int i = 1; i < p; ++i) {
    const int to = (me + i) % p, from = (me - i + p) % p;
    const Range gives = block_of(shape, shape.send, to), takes = block_of(shape, shape.recv, from);
    b.recv(from, {Space::out, 0, takes.first}, takes.n, 0);
    b.send(to, {Space::in, 0, gives.first}, gives.n, 0);
  }
  const Range from_me = block_of(shape, shape.send, me), to_me = block_of(shape, shape.recv, me);
  b.copy({Space::out, 0, to_me.first}, {Space::in, 0, from_me.first}, from_me.n);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllToAllPairwise = {Coll::all_to_all,
                                     "pairwise",
                                     "every block straight to its rank",
                                     "Thakur, Rabenseifner, Gropp 2005",
                                     reject,
                                     blocks_cost_us,
                                     plan};
const Algorithm kAllToAllvPairwise = {Coll::all_to_allv,
                                      "pairwise",
                                      "every block straight to its rank",
                                      "Thakur, Rabenseifner, Gropp 2005",
                                      reject,
                                      blocks_cost_us,
                                      plan};

}  // namespace rlx
