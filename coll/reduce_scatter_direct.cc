// SPDX-License-Identifier: MIT OR Apache-2.0
// Direct reduce_scatter: every rank sends block r of its input to rank r, raw (coll/leaves.h).
// Shape: P blocks of count elements in, block `rank` out; out == in + rank * count allowed; any P.
// Cost: one round of P-1 messages; S (P-1) bytes sent per rank, S = one block.
// Order: rank order, or exact.
// Source: pairwise exchange (Thakur, Rabenseifner, Gropp 2005).  Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/leaves.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double p = shape.n_ranks;
  return model.alpha_us + model.switch_us + (p - 1) * (0.2 * model.alpha_us + n * model.beta_us) +
         p * n * model.gamma_us;
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  const auto range_of = [&](int r) {
    return Range{static_cast<std::uint64_t>(r) * shape.count, shape.count};
  };
  exchange_leaves(b, shape, params, range_of, {Space::out}, true);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kReduceScatterDirect = {Coll::reduce_scatter,
                                        "direct",
                                        "raw blocks to their owners",
                                        "Thakur, Rabenseifner, Gropp 2005",
                                        reject,
                                        cost_us,
                                        plan};

}  // namespace rlx
