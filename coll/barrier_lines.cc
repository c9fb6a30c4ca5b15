// SPDX-License-Identifier: MIT OR Apache-2.0
// Barrier in shared memory: every rank shows its line and looks at all others.
// Shape: nothing but the ranks, which all share memory.
// Cost: one line written, P-1 read.
// Source: one writer a line, one round (collectives in shared memory of MPICH and Open MPI's xhc).
// Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

double cost_us(const Shape& shape, const Model& model) {
  return model.line_us + 0.05 * (shape.n_ranks - 2) + model.switch_us;
}

Plan plan(const Shape&, const Params&) {
  auto b = PlanBuilder::chain();
  b.arrive();
  b.await_arrivals();
  return std::move(b).seal();
}

}  // namespace

const Algorithm kBarrierLines = {Coll::barrier,
                                 "lines",
                                 "every rank shows a line and looks at all others",
                                 "one writer a line",
                                 reject_unless_shared,
                                 cost_us,
                                 plan};

}  // namespace rlx
