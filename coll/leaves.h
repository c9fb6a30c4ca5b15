// SPDX-License-Identifier: MIT OR Apache-2.0
// The direct exchange: every rank owns a range of the elements, gets the raw contributions
// ("leaves") of that range from all others and reduces them in rank order, all at once. The same
// bytes on the wire as a ring, no partial sums: so every mode can use it, exact included.
#pragma once

#include <functional>
#include <vector>

#include "coll/algorithm.h"
#include "coll/pattern.h"

namespace rlx {

struct LeafExchange {
  struct Segment {
    Range range;  // of the result, elements within the own range
    PlanBuilder::Id reduced;
  };
  std::vector<Segment> segments;                   // of the own range, at least one
  std::vector<std::vector<PlanBuilder::Id>> sent;  // by rank and segment: leaves on their way
  std::uint64_t piece = 0;                         // elements of a segment
  std::uint32_t n_rounds = 0;                      // used, from 0
};

// range_of(rank): the elements of `in` that rank owns. The own result goes to `to`.
// `finish`: avg's division follows the reduction.
LeafExchange exchange_leaves(PlanBuilder& b, const Shape& shape, const Params& params,
                             const std::function<Range(int)>& range_of, Ref to, bool finish);

// Segment s of the sums of all other ranks, from their owners to their place in `out`, in round
// n_rounds + s.
void recv_sums(PlanBuilder& b, const Shape& shape, const LeafExchange& leaves,
               const std::function<Range(int)>& range_of, std::size_t s);

// Leaves to the owners, then sums on as many links.
double leaves_cost_us(const Shape& shape, const Model& model);

}  // namespace rlx
