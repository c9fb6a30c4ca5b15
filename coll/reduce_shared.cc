// SPDX-License-Identifier: MIT OR Apache-2.0
// reduce in shared memory: small inputs in lines or slots, which the root sums; larger ones through
// staging buffers, every rank summing its part (coll/shared.h).
// Shape: count elements of every rank into the root's; in == out allowed; ranks that share memory.
// Cost: as all_reduce_staged, but only the root takes results.
// Order: rank order, or exact.
// Source: see all_reduce_slots and all_reduce_staged.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

constexpr std::uint64_t kSlotMost = 8 << 10;  // beyond it sharing the sum pays for a meeting more

double cost_us(const Shape& shape, const Model& model) {
  return shape.n_bytes() <= kSlotMost ? kAllReduceSlots.cost_us(shape, model)
                                      : kAllReduceStaged.cost_us(shape, model);
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::chain();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  const std::uint64_t n_bytes = shape.n_bytes();
  if (n_bytes > kSlotMost) {
    StagedReduction staged(b, shape, params);
    staged.put_first();
    b.arrive();
    b.await_arrivals();
    staged.emit(0);
    return std::move(b).seal();
  }
  const bool in_line = n_bytes <= kLineBytes;
  if (in_line) {
    b.arrive({Space::in}, n_bytes);
  } else {
    if (!shape.is_root()) b.copy(slot_of(shape.rank), {Space::in}, n_bytes);
    b.arrive();
  }
  b.await_arrivals();
  if (!shape.is_root()) return std::move(b).seal();
  std::vector<Ref> leaves;
  for (int r = 0; r < shape.n_ranks; ++r)
    leaves.push_back(r == shape.rank ? Ref{Space::in} : in_line ? line_of(r) : slot_of(r));
  b.finish(b.reduce({Ref{Space::out}}, leaves, shape.count));
  return std::move(b).seal();
}

}  // namespace

const Algorithm kReduceShared = {Coll::reduce,
                                 "shared",
                                 "lines, slots or staging buffers by size",
                                 "see all_reduce",
                                 reject_unless_shared,
                                 cost_us,
                                 plan};

}  // namespace rlx
