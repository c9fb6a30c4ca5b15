// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/leaves.h"

namespace rlx {
namespace {

// Segments whose leaves may be in scratch at the same time: enough to overlap, small enough for
// the caches.
constexpr std::uint64_t kWindow = 8;
constexpr std::uint64_t kMostSegments = 16384;  // rounds are 16 bits of the tag, others use some

std::uint64_t longest_range(int n_ranks, const std::function<Range(int)>& range_of) {
  std::uint64_t most = 0;
  for (int r = 0; r < n_ranks; ++r) most = std::max(most, range_of(r).n);
  return most;
}

}  // namespace

LeafExchange exchange_leaves(PlanBuilder& b, const Shape& shape, const Params& params,
                             const std::function<Range(int)>& range_of, Ref to, bool finish) {
  const std::uint64_t size = size_of(shape.dtype);
  const int p = shape.n_ranks, me = shape.rank;
  const std::uint64_t longest = longest_range(p, range_of);
  LeafExchange result;
  result.piece =
      std::max({params.message_bytes / size, n_cuts(longest, kMostSegments), std::uint64_t{1}});
  // At least one, even if empty: every rank then hears from every other.
  const std::uint64_t n_segments = std::max<std::uint64_t>(n_cuts(longest, result.piece), 1);
  const std::uint64_t window = std::min(kWindow, n_segments);
  result.n_rounds = static_cast<std::uint32_t>(n_segments);
  result.sent.resize(p);

  const auto cut = [&](Range range, std::uint64_t s) {
    const std::uint64_t first = std::min(s * result.piece, range.n);
    return Range{first, std::min(result.piece, range.n - first)};
  };
  const Range own = range_of(me);
  const std::uint64_t tmp_piece = std::min(result.piece, own.n) * size;
  std::vector<std::vector<Ref>> leaves(window, std::vector<Ref>(p));
  for (auto& slot : leaves)
    for (int r = 0; r < p; ++r)
      if (r != me) slot[r] = b.tmp(tmp_piece);

  for (std::uint64_t s = 0; s < n_segments; ++s) {
    const auto round = static_cast<std::uint32_t>(s);
    const Range segment = cut(own, s);
    std::vector<Ref> sources = leaves[s % window];
    sources[me] = {Space::in, 0, (own.first + segment.first) * size};
    std::vector<PlanBuilder::Id> got;
    for (int i = 1; i < p; ++i) {
      const int from = (me - i + p) % p;
      got.push_back(b.recv(from, sources[from], segment.n * size, round));
      if (s >= window) b.after(got.back(), result.segments[s - window].reduced);
    }
    for (int i = 1; i < p; ++i) {
      const int peer = (me + i) % p;
      const Range theirs = range_of(peer), piece = cut(theirs, s);
      const Ref leaf{Space::in, 0, (theirs.first + piece.first) * size};
      result.sent[peer].push_back(b.send(peer, leaf, piece.n * size, round));
    }
    const Ref dst{to.space, to.rank, to.offset + segment.first * size};
    const auto reduced = b.reduce({dst}, sources, segment.n);
    b.after(reduced, got);
    if (finish) b.finish(reduced);
    result.segments.push_back({segment, reduced});
  }
  return result;
}

void recv_sums(PlanBuilder& b, const Shape& shape, const LeafExchange& leaves,
               const std::function<Range(int)>& range_of, std::size_t s) {
  const std::uint64_t size = size_of(shape.dtype);
  const int p = shape.n_ranks;
  for (int i = 1; i < p; ++i) {
    const int from = (shape.rank - i + p) % p;
    const Range theirs = range_of(from);
    const std::uint64_t first = std::min(s * leaves.piece, theirs.n);
    const auto got = b.recv(from, {Space::out, 0, (theirs.first + first) * size},
                            std::min(leaves.piece, theirs.n - first) * size,
                            leaves.n_rounds + static_cast<std::uint32_t>(s));
    if (shape.in_place) b.after(got, leaves.sent[from][s]);  // lands on what is being sent
  }
}

double leaves_cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double p = shape.n_ranks;
  return 2 * (model.alpha_us + model.switch_us) + 2 * (p - 1) * 0.2 * model.alpha_us +
         n * (2 * (p - 1) / p * model.beta_us + model.gamma_us);
}

}  // namespace rlx
