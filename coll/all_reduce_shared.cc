// SPDX-License-Identifier: MIT OR Apache-2.0
// all_reduce straight in the user's pooled buffers: whoever runs takes the next chunk, sums it from
// all inputs and writes it to all outputs. If not all buffers are pooled: through staging buffers,
// as all_reduce_staged does.
// Shape: count elements on each of P ranks that share memory; in == out allowed; any count.
// Cost: S reduced and S P written in all, shared by the ranks that run; no meeting but arrival.
// Order: rank order, or exact; each element is summed by one rank.
// Source: chunk claiming; a rank without a core holds up nobody.   Tested by
// test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/shared.h"

namespace rlx {
namespace {

constexpr std::uint64_t kLeastChunk = 8 << 10;  // bytes

// Chunks small enough that every rank may get one, large enough to be worth claiming.
std::uint32_t chunk_of(const Shape& shape, const Params& params) {
  const std::uint64_t size = size_of(shape.dtype), unit = per_line(shape.dtype);
  const std::uint64_t share = n_cuts(shape.count, static_cast<std::uint64_t>(shape.n_ranks));
  const std::uint64_t most = std::max(params.chunk_bytes, kLeastChunk) / size;
  const std::uint64_t chunk = std::clamp(share, kLeastChunk / size, most);
  return static_cast<std::uint32_t>(n_cuts(chunk, unit) * unit);
}

double cost_us(const Shape& shape, const Model& model) {
  // Where buffers are not pooled it costs what staged costs; where they are, half of it.
  return 0.9 * kAllReduceStaged.cost_us(shape, model);
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::chain();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  StagedReduction staged(b, shape, params);
  const auto claim = [&] {
    std::vector<Ref> ins, outs;
    for (int r = 0; r < shape.n_ranks; ++r) {
      ins.push_back({Space::peer_in, r, 0});
      outs.push_back({Space::peer_out, r, 0});
    }
    b.finish(b.claim(outs, ins, shape.count, chunk_of(shape, params), params.results));
  };
  emit_by_pool(
      b, shape, -1, claim, [&] { staged.put_first(); },
      [&](std::uint32_t round) { staged.emit(round); });
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceShared = {Coll::all_reduce,
                                    "shared",
                                    "in pooled buffers by claimed chunks, else staged",
                                    "chunk claiming",
                                    reject_unless_shared,
                                    cost_us,
                                    plan};

}  // namespace rlx
