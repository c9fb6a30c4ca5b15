// SPDX-License-Identifier: MIT OR Apache-2.0
// Dissemination barrier: in round k rank r tells r + 2^k and hears from r - 2^k.
// Shape: nothing but the ranks; any P >= 1.
// Cost: ceil(log2 P) rounds of one empty message.
// Source: Hensgen, Finkel, Manber, 1988.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

double cost_us(const Shape& shape, const Model& model) {
  return log2_ceil(shape.n_ranks) * (model.alpha_us + model.switch_us);
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  const int p = shape.n_ranks, r = shape.rank;
  const Ref nothing = b.tmp(1);
  PlanBuilder::Id heard = 0;
  for (int k = 0, step = 1; step < p; ++k, step *= 2) {
    const auto round = static_cast<std::uint32_t>(k);
    const auto told = b.send((r + step) % p, nothing, 0, round);
    if (k > 0) b.after(told, heard);
    const auto next = b.recv((r - step + p) % p, nothing, 0, round);
    if (k > 0) b.after(next, heard);
    heard = next;
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kBarrierDissemination = {Coll::barrier,
                                         "dissemination",
                                         "log2 P rounds of empty messages",
                                         "Hensgen, Finkel, Manber 1988",
                                         reject,
                                         cost_us,
                                         plan};

}  // namespace rlx
