// SPDX-License-Identifier: MIT OR Apache-2.0
// all_to_all, scatter and reduce_scatter in shared memory: every rank (scatter: the root) shows the
// blocks that are for others in its slot, its pooled buffer or its staging buffers, by size; block
// r is taken, or reduced, by rank r. Shape: P blocks of count elements in (scatter: of the root);
// out: P blocks, or one. scatter's and
//   reduce_scatter's own block may lie there already; ranks that share memory.
// Cost: (P-1) S copied in, as much copied or reduced out per rank (S = one block); pooled: out
// only. Order: reduce_scatter: rank order, or exact. Source: see all_reduce_slots.   Tested by
// test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double blocks = shape.n_ranks;
  const double segments = std::max(1.0, blocks * n / static_cast<double>(kStageBytes));
  return segments * (model.line_us + model.switch_us) +
         blocks * n * (2 * model.copy_us + model.read_us + model.gamma_us);
}

// Emits the copies of one segment: elements [first, first + n) of every block, which lie `stride`
// bytes apart where they are shown.
class Emit {
 public:
  Emit(PlanBuilder& b, const Shape& shape)
      : b_(b), shape_(shape), size_(size_of(shape.dtype)), shows_(gives(shape.rank)) {}

  void put(const Ref& to, std::uint64_t stride, std::uint64_t first, std::uint64_t n) {
    if (!shows_) return;
    for (int r = 0; r < shape_.n_ranks; ++r)
      if (r != shape_.rank)
        b_.copy({to.space, to.rank, to.offset + static_cast<std::uint64_t>(r) * stride},
                in_block(r, first), n * size_);
  }

  // from(r): where rank r shows its first block.
  void take(const std::function<Ref(int)>& from, std::uint64_t stride, std::uint64_t first,
            std::uint64_t n) {
    const auto shown = [&](int r) {
      if (r == shape_.rank) return in_block(r, first);
      Ref ref = from(r);
      ref.offset += static_cast<std::uint64_t>(shape_.rank) * stride;
      return ref;
    };
    if (shape_.coll == Coll::reduce_scatter) {
      std::vector<Ref> leaves;
      for (int r = 0; r < shape_.n_ranks; ++r) leaves.push_back(shown(r));
      b_.finish(b_.reduce({Ref{Space::out, 0, first * size_}}, leaves, n));
      return;
    }
    for (int i = 0; i < shape_.n_ranks; ++i) {
      const int r = (shape_.rank + i) % shape_.n_ranks;
      if (!gives(r) || (r == shape_.rank && shape_.in_place)) continue;
      const std::uint64_t block =
          shape_.coll == Coll::all_to_all ? static_cast<std::uint64_t>(r) * shape_.n_bytes() : 0;
      b_.copy({Space::out, 0, block + first * size_}, shown(r), n * size_);
    }
  }

 private:
  bool gives(int rank) const { return shape_.coll != Coll::scatter || rank == shape_.root; }
  Ref in_block(int r, std::uint64_t first) const {
    return {Space::in, 0, static_cast<std::uint64_t>(r) * shape_.n_bytes() + first * size_};
  }

  PlanBuilder& b_;
  const Shape& shape_;
  std::uint64_t size_;
  bool shows_;
};

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::chain();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  const std::uint64_t n_bytes = shape.n_bytes(), size = size_of(shape.dtype);
  const auto p = static_cast<std::uint64_t>(shape.n_ranks);
  Emit emit(b, shape);
  if (n_bytes <= kSlotBytes / p) {
    emit.put(slot_of(shape.rank), n_bytes, 0, shape.count);
    b.arrive();
    b.await_arrivals();
    emit.take([](int r) { return slot_of(r); }, n_bytes, 0, shape.count);
    return std::move(b).seal();
  }
  const std::uint64_t unit = per_line(shape.dtype);
  const std::uint64_t room = std::min<std::uint64_t>(params.segment_bytes, kStageBytes) / size / p;
  const std::uint64_t piece = std::max(room / unit * unit, std::min(unit, kStageBytes / size / p));
  const auto length = [&](std::uint64_t k) { return std::min(piece, shape.count - k * piece); };
  Exchange exchange;
  exchange.n_segments = n_cuts(shape.count, piece);
  exchange.pooled_rank = shape.coll == Coll::scatter ? shape.root : -1;
  exchange.put = [&](std::uint64_t k) {
    emit.put(stage_of(shape.rank, k), piece * size, k * piece, length(k));
  };
  exchange.take = [&](std::uint64_t k) {
    emit.take([&](int r) { return stage_of(r, k); }, piece * size, k * piece, length(k));
  };
  exchange.direct = [&] {
    emit.take([](int r) { return Ref{Space::peer_in, r, 0}; }, n_bytes, 0, shape.count);
  };
  emit_exchange(b, shape, exchange);
  return std::move(b).seal();
}

const char* reject(const Shape& shape) {
  if (const char* why = reject_unless_shared(shape)) return why;
  constexpr int kMostRanks = 4096;  // a line for each must fit the staging buffer
  return shape.n_ranks > kMostRanks ? "more than 4096 ranks" : nullptr;
}

}  // namespace

const Algorithm kAllToAllShared = {Coll::all_to_all,
                                   "shared",
                                   "through slots, pooled buffers or staging buffers",
                                   "see all_reduce",
                                   reject,
                                   cost_us,
                                   plan};
const Algorithm kScatterShared = {Coll::scatter,
                                  "shared",
                                  "through slots, pooled buffers or staging buffers of the root",
                                  "see all_reduce",
                                  reject,
                                  cost_us,
                                  plan};
const Algorithm kReduceScatterShared = {Coll::reduce_scatter,
                                        "shared",
                                        "through slots, pooled buffers or staging buffers",
                                        "see all_reduce",
                                        reject,
                                        cost_us,
                                        plan};

}  // namespace rlx
