// SPDX-License-Identifier: MIT OR Apache-2.0
// all_reduce in shared memory through staging buffers: segment by segment, every rank shows the
// others their parts, sums its own and takes the rest (coll/shared.h).
// Shape: count elements on each of P ranks that share memory; in == out allowed; any count.
// Cost: per rank S (P-1)/P copied out, S reduced, S (P-1)/P copied in; one meeting a segment.
// Order: rank order, or exact; each element is summed by one rank.
// Source: copy-in copy-out with slices (XHC, acoll).
// Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double p = shape.n_ranks, moved = n * (p - 1) / p;
  const double segments = std::max(1.0, n / static_cast<double>(kStageBytes));
  return (segments + 1) * (model.line_us + model.switch_us) + 0.05 * p +
         2 * moved * (model.copy_us + model.read_us) + n * model.gamma_us;
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::chain();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  StagedReduction staged(b, shape, params);
  staged.put_first();
  b.arrive();
  b.await_arrivals();
  staged.emit(0);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceStaged = {Coll::all_reduce,
                                    "staged",
                                    "through staging buffers, every rank sums its part",
                                    "XHC, acoll",
                                    reject_unless_shared,
                                    cost_us,
                                    plan};

}  // namespace rlx
