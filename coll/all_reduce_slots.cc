// SPDX-License-Identifier: MIT OR Apache-2.0
// all_reduce of small inputs in shared memory: every rank copies its input into its slot, then
// everyone sums all slots.
// Shape: at most kSlotBytes on each of P ranks that share memory; in == out allowed.
// Cost: S written, S P read and reduced per rank; one meeting.
// Order: rank order, or exact; all ranks do the same sum.
// Source: one-shot all_reduce (MSCCL++).   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

const char* reject(const Shape& shape) {
  if (const char* why = reject_unless_shared(shape)) return why;
  return shape.n_bytes() > kSlotBytes ? "more than a slot (32 KiB)" : nullptr;
}

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double peers = shape.n_ranks - 1;
  return 1.2 * model.line_us + 0.05 * (peers - 1) + model.switch_us + n * model.copy_us +
         peers * n * model.read_us + shape.n_ranks * n * model.gamma_us;
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::chain();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  b.copy(slot_of(shape.rank), {Space::in}, shape.n_bytes());
  b.arrive();
  b.await_arrivals();
  std::vector<Ref> leaves;
  for (int r = 0; r < shape.n_ranks; ++r)
    leaves.push_back(r == shape.rank ? Ref{Space::in} : slot_of(r));
  b.finish(b.reduce({Ref{Space::out}}, leaves, shape.count));
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceSlots = {
    Coll::all_reduce, "slots", "inputs into slots, everyone sums all", "MSCCL++ one-shot", reject,
    cost_us,          plan};

}  // namespace rlx
