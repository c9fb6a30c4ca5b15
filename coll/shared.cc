// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/shared.h"

namespace rlx {

const char* reject_unless_shared(const Shape& shape) {
  if (shape.n_ranks < 2) return "there is one rank only";
  return shape.one_host ? nullptr : "the ranks do not all share memory";
}

void emit_by_pool(PlanBuilder& b, const Shape& shape, int pooled_rank,
                  const std::function<void()>& direct, const std::function<void()>& put_first,
                  const std::function<void(std::uint32_t round)>& staged) {
  // A rank with pooled buffers hopes for the best and stages nothing yet. If it alone is pooled,
  // the others cannot know whether it has staged, so all meet once more.
  if (!shape.pooled) put_first();
  b.arrive();
  b.await_arrivals();
  const auto otherwise = b.unless_pooled(pooled_rank);
  direct();
  b.stop();
  b.land(otherwise);
  if (pooled_rank >= 0) return staged(0);
  const auto mixed = b.if_any_pooled();
  staged(0);
  b.stop();
  b.land(mixed);
  if (shape.pooled) put_first();
  b.signal(1);
  b.await_all(1);
  staged(1);
}

void emit_exchange(PlanBuilder& b, const Shape& shape, const Exchange& exchange) {
  const auto loop = [&](std::uint32_t round) {
    for (std::uint64_t k = 0; k < exchange.n_segments; ++k) {
      // All have taken segment k - 1, which was in the same half.
      if (k + 1 < exchange.n_segments) exchange.put(k + 1);
      exchange.take(k);
      b.signal(++round);
      b.await_all(round);
    }
  };
  if (!exchange.direct) {
    exchange.put(0);
    b.arrive();
    b.await_arrivals();
    return loop(0);
  }
  const auto direct = [&] {
    exchange.direct();
    b.signal(1);  // nobody returns before its buffer has been read
    b.await_all(1);
  };
  emit_by_pool(
      b, shape, exchange.pooled_rank, direct, [&] { exchange.put(0); }, loop);
}

StagedReduction::StagedReduction(PlanBuilder& b, const Shape& shape, const Params& params)
    : b_(b),
      shape_(shape),
      takes_(shape.coll == Coll::all_reduce || shape.is_root()),
      size_(size_of(shape.dtype)),
      params_(params) {
  const std::uint64_t unit = per_line(shape.dtype);
  const std::uint64_t most = std::min<std::uint64_t>(params.segment_bytes, kStageBytes) / size_;
  piece_ = std::max(most / unit * unit, unit);
  n_segments_ = std::max<std::uint64_t>(n_cuts(shape.count, piece_), 1);
}

Range StagedReduction::segment(std::uint64_t k) const {
  const std::uint64_t first = std::min(k * piece_, shape_.count);
  return {first, std::min(piece_, shape_.count - first)};
}

Range StagedReduction::part_of(std::uint64_t k, int rank) const {
  return part(segment(k).n, shape_.n_ranks, rank, per_line(shape_.dtype));
}

// The own part stays where it is: nobody else reads it.
void StagedReduction::put(std::uint64_t k) {
  const Range all = segment(k), own = part_of(k, shape_.rank);
  const auto copy = [&](std::uint64_t first, std::uint64_t end) {
    if (first == end) return;
    b_.copy(stage_of(shape_.rank, k, first * size_), {Space::in, 0, (all.first + first) * size_},
            (end - first) * size_);
  };
  copy(0, own.first);
  copy(own.end(), all.n);
}

void StagedReduction::reduce(std::uint64_t k) {
  const Range all = segment(k), own = part_of(k, shape_.rank);
  if (own.n == 0) return;
  std::vector<Ref> leaves;
  for (int r = 0; r < shape_.n_ranks; ++r)
    leaves.push_back(r == shape_.rank ? Ref{Space::in, 0, (all.first + own.first) * size_}
                                      : stage_of(r, k, own.first * size_));
  const Ref out{Space::out, 0, (all.first + own.first) * size_};
  const Ref result = result_of(shape_.rank, k);
  const bool others_take = shape_.coll == Coll::all_reduce || !shape_.is_root();
  // What goes past the caches is not read again: it comes last. Else `result`, whose lines the
  // others have read, comes last.
  const bool out_last = others_take && params_.results == kernels::Stores::streaming;
  const auto sum = b_.reduce({takes_ && !out_last ? out : result}, leaves, own.n);
  b_.finish(sum);
  if (!takes_) b_.show(sum);
  if (!takes_ || !others_take) return;
  if (out_last)
    b_.copy(out, result, own.n * size_, params_.results);
  else
    b_.copy(result, out, own.n * size_);
}

void StagedReduction::take(std::uint64_t k) {
  if (!takes_) return;
  const Range all = segment(k);
  for (int i = 1; i < shape_.n_ranks; ++i) {
    const int r = (shape_.rank + i) % shape_.n_ranks;
    const Range theirs = part_of(k, r);
    if (theirs.n > 0)
      b_.copy({Space::out, 0, (all.first + theirs.first) * size_}, result_of(r, k),
              theirs.n * size_, params_.results);
  }
}

// One meeting a segment: "I have summed my part of k and staged k + 1".
void StagedReduction::emit(std::uint32_t first_round) {
  for (std::uint64_t k = 0; k < n_segments_; ++k) {
    if (k + 1 < n_segments_) put(k + 1);
    reduce(k);
    const auto round = first_round + static_cast<std::uint32_t>(k) + 1;
    b_.signal(round);
    b_.await_all(round);
    take(k);
  }
}

}  // namespace rlx
