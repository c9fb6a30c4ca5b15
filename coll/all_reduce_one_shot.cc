// SPDX-License-Identifier: MIT OR Apache-2.0
// One-shot all_reduce: every rank sends its whole input to all others and sums all inputs itself.
// Shape: count elements of dtype on each of P ranks; in == out allowed; any P, any count.
// Cost: one round; S (P-1) bytes sent and S P reduced per rank; scratch S (P-1). For small S.
// Order: rank order, or exact: all ranks do the same sum, so get the same bits.
// Source: the all-pairs scheme of MSCCL++ and Open MPI's allgather_reduce.
// Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"

namespace rlx {
namespace {

constexpr std::uint64_t kMostScratch = 64 << 20;  // bytes

const char* reject(const Shape& shape) {
  const auto peers = static_cast<std::uint64_t>(shape.n_ranks - 1);
  return peers > 0 && shape.n_bytes() > kMostScratch / peers ? "needs more than 64 MiB of scratch"
                                                             : nullptr;
}

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double peers = shape.n_ranks - 1;
  return model.alpha_us + model.switch_us + peers * (0.2 * model.alpha_us + n * model.beta_us) +
         shape.n_ranks * n * model.gamma_us;
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, exact_sum(shape));
  const int p = shape.n_ranks, me = shape.rank;
  const std::uint64_t n_bytes = shape.n_bytes();
  std::vector<Ref> leaves(p, Ref{Space::in});
  std::vector<PlanBuilder::Id> before;
  for (int i = 1; i < p; ++i) {
    const int from = (me - i + p) % p;
    leaves[from] = b.tmp(n_bytes);
    before.push_back(b.recv(from, leaves[from], n_bytes, 0));
  }
  for (int i = 1; i < p; ++i) {
    const auto sent = b.send((me + i) % p, {Space::in}, n_bytes, 0);
    if (shape.in_place) before.push_back(sent);  // the sum overwrites what is being sent
  }
  const auto sum = b.reduce({Ref{Space::out}}, leaves, shape.count);
  b.after(sum, before);
  b.finish(sum);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceOneShot = {Coll::all_reduce,
                                     "one_shot",
                                     "everyone sends all to all and sums in rank order",
                                     "MSCCL++ all-pairs",
                                     reject,
                                     cost_us,
                                     plan};

}  // namespace rlx
