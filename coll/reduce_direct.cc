// SPDX-License-Identifier: MIT OR Apache-2.0
// Direct reduce: raw leaves to the owners of parts (coll/leaves.h), who send the sums to the root.
// Small inputs go to the root whole.
// Shape: count elements of every rank into the root's; in == out allowed; any P, count, root.
// Cost: two rounds; S (P-1)/P bytes sent by and to each rank, S (P-1)/P more to the root; small:
//   one round, S (P-1) bytes to the root. Scratch a window of segments.
// Order: rank order, or exact.
// Source: Thakur, Rabenseifner, Gropp 2005 (reduce-scatter and gather).
// Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/leaves.h"

namespace rlx {
namespace {

constexpr std::uint64_t kWholeBytes = 16 << 10;

const char* reject(const Shape&) { return nullptr; }

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double p = shape.n_ranks;
  if (shape.n_bytes() <= kWholeBytes)
    return model.alpha_us + model.switch_us + (p - 1) * (0.2 * model.alpha_us + n * model.beta_us) +
           p * n * model.gamma_us;
  return leaves_cost_us(shape, model);
}

Plan whole_plan(const Shape& shape, PlanBuilder b) {
  const std::uint64_t n_bytes = shape.n_bytes();
  if (!shape.is_root()) {
    b.send(shape.root, {Space::in}, n_bytes, 0);
    return std::move(b).seal();
  }
  std::vector<Ref> leaves(shape.n_ranks, Ref{Space::in});
  std::vector<PlanBuilder::Id> got;
  for (int r = 0; r < shape.n_ranks; ++r) {
    if (r == shape.rank) continue;
    leaves[r] = b.tmp(n_bytes);
    got.push_back(b.recv(r, leaves[r], n_bytes, 0));
  }
  const auto sum = b.reduce({Ref{Space::out}}, leaves, shape.count);
  b.after(sum, got);
  b.finish(sum);
  return std::move(b).seal();
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  if (shape.n_bytes() <= kWholeBytes) return whole_plan(shape, std::move(b));
  const std::uint64_t size = size_of(shape.dtype);
  const auto range_of = [&](int r) {
    return part(shape.count, shape.n_ranks, r, per_line(shape.dtype));
  };
  const Range own = range_of(shape.rank);
  const Ref sum = shape.is_root() ? Ref{Space::out, 0, own.first * size} : b.tmp(own.n * size);
  const LeafExchange leaves = exchange_leaves(b, shape, params, range_of, sum, true);

  for (std::size_t s = 0; s < leaves.segments.size(); ++s) {
    const auto round = leaves.n_rounds + static_cast<std::uint32_t>(s);
    if (!shape.is_root()) {
      const Range segment = leaves.segments[s].range;
      const Ref mine{sum.space, 0, sum.offset + segment.first * size};
      b.after(b.send(shape.root, mine, segment.n * size, round), leaves.segments[s].reduced);
      continue;
    }
    recv_sums(b, shape, leaves, range_of, s);
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kReduceDirect = {Coll::reduce,
                                 "direct",
                                 "raw parts to their owners, sums to the root",
                                 "Thakur, Rabenseifner, Gropp 2005",
                                 reject,
                                 cost_us,
                                 plan};

}  // namespace rlx
