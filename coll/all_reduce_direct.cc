// SPDX-License-Identifier: MIT OR Apache-2.0
// Direct all_reduce: reduce-scatter of raw leaves (coll/leaves.h), then every rank sends its part
// of the result to all others; both in segments that overlap.
// Shape: count elements of dtype on each of P ranks; in == out allowed; any P, any count.
// Cost: two rounds of P-1 messages; 2 S (P-1)/P bytes sent per rank; scratch a window of segments.
// Order: rank order, or exact; each element is summed by one rank, so all get the same bits.
// Source: reduce-scatter and all-gather by pairwise exchange (Thakur, Rabenseifner, Gropp 2005).
// Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/leaves.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  const std::uint64_t size = size_of(shape.dtype);
  const int p = shape.n_ranks, me = shape.rank;
  const auto range_of = [&](int r) { return part(shape.count, p, r, per_line(shape.dtype)); };
  const Range own = range_of(me);
  const LeafExchange leaves =
      exchange_leaves(b, shape, params, range_of, {Space::out, 0, own.first * size}, true);

  for (std::size_t s = 0; s < leaves.segments.size(); ++s) {
    const auto round = leaves.n_rounds + static_cast<std::uint32_t>(s);
    const Range segment = leaves.segments[s].range;
    const Ref mine{Space::out, 0, (own.first + segment.first) * size};
    for (int i = 1; i < p; ++i)
      b.after(b.send((me + i) % p, mine, segment.n * size, round), leaves.segments[s].reduced);
    recv_sums(b, shape, leaves, range_of, s);
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceDirect = {Coll::all_reduce,
                                    "direct",
                                    "raw parts to their owners, results to all",
                                    "Thakur, Rabenseifner, Gropp 2005",
                                    reject,
                                    leaves_cost_us,
                                    plan};

}  // namespace rlx
