// SPDX-License-Identifier: MIT OR Apache-2.0
// Ring all_reduce: reduce-scatter, then all-gather around the ring.
// Shape: count elements of dtype on each of P ranks; in == out allowed; any P, any count.
// Cost: 2(P-1) rounds; 2 S (P-1)/P bytes sent per rank, to one neighbour; scratch 2 S / P.
// Order: block b is summed as b+1, b+2, ..., b: the same on all ranks, but not rank order.
// Source: Patarasuk & Yuan, JPDC 2009.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"

namespace rlx {
namespace {

const char* reject(const Shape& shape) {
  return any_order(shape) ? nullptr : "sums in ring order, which this mode does not allow";
}

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const double p = shape.n_ranks;
  return 2 * (p - 1) * (model.alpha_us + model.switch_us + n / p * model.beta_us) +
         (p - 1) / p * n * 3 * model.gamma_us;
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, false);
  const std::uint64_t size = size_of(shape.dtype);
  const int p = shape.n_ranks, me = shape.rank;
  const int left = (me - 1 + p) % p, right = (me + 1) % p;
  const auto block = [&](int i) {
    return part(shape.count, p, (i % p + p) % p, per_line(shape.dtype));
  };
  const auto at = [&](Space space, int i) { return Ref{space, 0, block(i).first * size}; };
  if (p == 1) {
    b.finish(b.reduce({Ref{Space::out}}, {Ref{Space::in}}, shape.count));
    return std::move(b).seal();
  }

  // Round k: block me - k - 1 goes right, block me - k - 2 comes from the left and is summed. After
  // P - 1 rounds this rank has the whole sum of block me.
  const Ref room[2] = {b.tmp(block(0).n * size), b.tmp(block(0).n * size)};
  std::vector<PlanBuilder::Id> sent(p), summed(p - 1);
  for (int k = 0; k < p - 1; ++k) {
    const int gives = me - k - 1, takes = me - k - 2;
    const auto round = static_cast<std::uint32_t>(k);
    const auto out_going = at(k == 0 ? Space::in : Space::out, gives);
    const auto send = b.send(right, out_going, block(gives).n * size, round);
    if (k > 0) b.after(send, summed[k - 1]);
    sent[(gives + 2 * p) % p] = send;
    const auto got = b.recv(left, room[k % 2], block(takes).n * size, round);
    if (k >= 2) b.after(got, summed[k - 2]);
    summed[k] =
        b.reduce({at(Space::out, takes)}, {room[k % 2], at(Space::in, takes)}, block(takes).n);
    b.after(summed[k], got);
  }
  b.finish(summed[p - 2]);

  PlanBuilder::Id have = summed[p - 2];
  for (int k = 0; k < p - 1; ++k) {
    const int gives = me - k, takes = me - k - 1;
    const auto round = static_cast<std::uint32_t>(p - 1 + k);
    b.after(b.send(right, at(Space::out, gives), block(gives).n * size, round), have);
    const auto got = b.recv(left, at(Space::out, takes), block(takes).n * size, round);
    b.after(got, sent[(takes + 2 * p) % p]);  // the partial sum there must have left
    have = got;
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceRing = {Coll::all_reduce,
                                  "ring",
                                  "reduce-scatter and all-gather around the ring",
                                  "Patarasuk & Yuan 2009",
                                  reject,
                                  cost_us,
                                  plan};

}  // namespace rlx
