// SPDX-License-Identifier: MIT OR Apache-2.0
// all_reduce of a few bytes in shared memory: the input rides in the line that says "I am here".
// Shape: at most kLineBytes (48) on each of P ranks that share memory; in == out allowed.
// Cost: one line written, P-1 read: the latency of one cache line.
// Order: rank order, or exact; all ranks do the same sum.
// Source: payload beside the flag, as in NCCL's LL and XHC.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

const char* reject(const Shape& shape) {
  if (const char* why = reject_unless_shared(shape)) return why;
  return shape.n_bytes() > kLineBytes ? "more than 48 bytes" : nullptr;
}

double cost_us(const Shape& shape, const Model& model) {
  return model.line_us + 0.05 * (shape.n_ranks - 2) + model.switch_us;
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::chain();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  b.arrive({Space::in}, shape.n_bytes());
  b.await_arrivals();
  std::vector<Ref> lines;
  // The own line may still be on its way back from the peers, which read it two calls ago.
  for (int r = 0; r < shape.n_ranks; ++r)
    lines.push_back(r == shape.rank ? Ref{Space::in} : line_of(r));
  b.finish(b.reduce({Ref{Space::out}}, lines, shape.count));
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceLines = {Coll::all_reduce,
                                   "lines",
                                   "input and flag in one cache line, everyone sums all",
                                   "NCCL LL, XHC",
                                   reject,
                                   cost_us,
                                   plan};

}  // namespace rlx
