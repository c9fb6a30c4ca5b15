// SPDX-License-Identifier: MIT OR Apache-2.0
// all_gather and gather in shared memory: blocks in lines, in slots, straight from pooled buffers,
// or through staging buffers, by size. gather: only the root takes. Shape: count elements of each
// rank into block r of the output; the own block may lie there
//   already; ranks that share memory.
// Cost: S copied in and P S out per taking rank (S = one block); pooled: out only.
// Order: nothing is reduced.
// Source: see all_reduce_slots.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double segments = std::max(1.0, n / static_cast<double>(kStageBytes));
  const double blocks = shape.n_ranks;
  return segments * (model.line_us + model.switch_us) + n * model.copy_us +
         blocks * n * (model.copy_us + model.read_us);
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::chain();
  const std::uint64_t n_bytes = shape.n_bytes();
  const bool takes = shape.coll == Coll::all_gather || shape.is_root();
  const auto block = [&](int r, std::uint64_t offset = 0) {
    return Ref{Space::out, 0, static_cast<std::uint64_t>(r) * n_bytes + offset};
  };
  const auto take_all = [&](const std::function<Ref(int)>& from, std::uint64_t offset,
                            std::uint64_t n) {
    if (!takes) return;
    for (int i = 0; i < shape.n_ranks; ++i) {
      const int r = (shape.rank + i) % shape.n_ranks;
      if (r != shape.rank)
        b.copy(block(r, offset), from(r), n, params.results);
      else if (!shape.in_place)
        b.copy(block(r, offset), {Space::in, 0, offset}, n, params.results);
    }
  };
  if (n_bytes <= kSlotBytes) {
    const bool in_line = n_bytes <= kLineBytes;
    if (in_line) {
      b.arrive({Space::in}, n_bytes);
    } else {
      b.copy(slot_of(shape.rank), {Space::in}, n_bytes);
      b.arrive();
    }
    b.await_arrivals();
    take_all([&](int r) { return in_line ? line_of(r) : slot_of(r); }, 0, n_bytes);
    return std::move(b).seal();
  }
  const std::uint64_t piece = std::min<std::uint64_t>(params.segment_bytes, kStageBytes);
  const auto length = [&](std::uint64_t k) { return std::min(piece, n_bytes - k * piece); };
  Exchange exchange;
  exchange.n_segments = n_cuts(n_bytes, piece);
  exchange.put = [&](std::uint64_t k) {
    b.copy(stage_of(shape.rank, k), {Space::in, 0, k * piece}, length(k));
  };
  exchange.take = [&](std::uint64_t k) {
    take_all([&](int r) { return stage_of(r, k); }, k * piece, length(k));
  };
  exchange.direct = [&] { take_all([&](int r) { return Ref{Space::peer_in, r, 0}; }, 0, n_bytes); };
  emit_exchange(b, shape, exchange);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllGatherShared = {Coll::all_gather,
                                    "shared",
                                    "through lines, slots, pooled buffers or staging buffers",
                                    "see all_reduce",
                                    reject_unless_shared,
                                    cost_us,
                                    plan};
const Algorithm kGatherShared = {Coll::gather,
                                 "shared",
                                 "through lines, slots, pooled buffers or staging buffers",
                                 "see all_reduce",
                                 reject_unless_shared,
                                 cost_us,
                                 plan};

}  // namespace rlx
