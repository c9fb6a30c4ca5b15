// SPDX-License-Identifier: MIT OR Apache-2.0
// Broadcast in shared memory: in the root's line, its slot, straight from its pooled buffer, or
// through its staging buffers, by size.
// Shape: count elements of the root into every rank's buffer (in == out); ranks that share memory.
// Cost: S copied in once and out by every rank; pooled: out only.
// Order: nothing is reduced.
// Source: see all_reduce_slots.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double segments = std::max(1.0, n / static_cast<double>(kStageBytes));
  return segments * (model.line_us + model.switch_us) + n * (2 * model.copy_us + model.read_us);
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::chain();
  const std::uint64_t n_bytes = shape.n_bytes();
  const Ref data{Space::out};
  const bool root = shape.is_root();
  if (n_bytes <= kSlotBytes) {
    const bool in_line = n_bytes <= kLineBytes;
    if (root && in_line) {
      b.arrive(data, n_bytes);
    } else {
      if (root) b.copy(slot_of(shape.root), data, n_bytes);
      b.arrive();
    }
    b.await_arrivals();
    if (!root) b.copy(data, in_line ? line_of(shape.root) : slot_of(shape.root), n_bytes);
    return std::move(b).seal();
  }
  const std::uint64_t piece = std::min<std::uint64_t>(params.segment_bytes, kStageBytes);
  const auto at = [&](std::uint64_t k) { return Ref{Space::out, 0, k * piece}; };
  const auto length = [&](std::uint64_t k) { return std::min(piece, n_bytes - k * piece); };
  Exchange exchange;
  exchange.n_segments = n_cuts(n_bytes, piece);
  exchange.pooled_rank = shape.root;
  exchange.put = [&](std::uint64_t k) {
    if (root) b.copy(stage_of(shape.root, k), at(k), length(k));
  };
  exchange.take = [&](std::uint64_t k) {
    if (!root) b.copy(at(k), stage_of(shape.root, k), length(k), params.results);
  };
  exchange.direct = [&] {
    if (!root) b.copy(data, {Space::peer_in, shape.root, 0}, n_bytes);
  };
  emit_exchange(b, shape, exchange);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kBroadcastShared = {Coll::broadcast,
                                    "shared",
                                    "from the root's line, slot, pooled buffer or staging buffers",
                                    "see all_reduce",
                                    reject_unless_shared,
                                    cost_us,
                                    plan};

}  // namespace rlx
