// SPDX-License-Identifier: MIT OR Apache-2.0
// Recursive doubling all_reduce: in round k ranks whose numbers differ in bit k exchange sums.
// Shape: count elements of dtype on each of P ranks; in == out allowed; any P, any count. With
//   P = 2^m + e the first 2e ranks pair up: the odd one gives its input before and gets the result
//   after.
// Cost: ceil(log2 P) rounds (two more if P is no power of two) of S bytes; scratch S (rounds + 1).
// Order: both partners add lower + higher, so all ranks get the same bits, but not in rank order.
// Source: Thakur, Rabenseifner, Gropp 2005.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"

namespace rlx {
namespace {

struct Fold {
  int core = 1;   // largest power of two <= P
  int extra = 0;  // P - core: pairs (0,1), (2,3), ... of the first 2 * extra ranks
};

Fold fold_of(int n_ranks) {
  Fold fold;
  while (fold.core * 2 <= n_ranks) fold.core *= 2;
  fold.extra = n_ranks - fold.core;
  return fold;
}

const char* reject(const Shape& shape) {
  return any_order(shape) ? nullptr : "sums by pairs, which this mode does not allow";
}

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const Fold fold = fold_of(shape.n_ranks);
  const double rounds = log2_ceil(fold.core) + (fold.extra > 0 ? 2 : 0);
  return rounds * (model.alpha_us + n * (model.beta_us + 2 * model.gamma_us) + model.switch_us);
}

// What the rank holds at a point of the plan, and the step that made it.
struct Held {
  Ref data;
  PlanBuilder::Id made = 0;
  bool by_step = false;
};

// Adds `theirs` to what is held; lower rank's part first. The result goes to `to`.
Held add(PlanBuilder& b, const Shape& shape, Held held, Ref theirs, PlanBuilder::Id got, bool lower,
         Ref to) {
  const auto sum = b.reduce(
      {to}, lower ? std::vector{theirs, held.data} : std::vector{held.data, theirs}, shape.count);
  b.after(sum, got);
  if (held.by_step) b.after(sum, held.made);
  return {to, sum, true};
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, false);
  const Fold fold = fold_of(shape.n_ranks);
  const std::uint64_t n_bytes = shape.n_bytes();
  const int me = shape.rank;
  const Ref in{Space::in}, out{Space::out};
  constexpr std::uint32_t kBefore = 100, kAfter = 101;  // rounds of the fold

  if (me < 2 * fold.extra && me % 2 == 1) {
    const auto given = b.send(me - 1, in, n_bytes, kBefore);
    b.after(b.recv(me - 1, out, n_bytes, kAfter), given);
    return std::move(b).seal();
  }
  const bool folded = me < 2 * fold.extra;
  const int id = folded ? me / 2 : me - fold.extra;  // among the core
  const auto rank_of = [&](int core_id) {
    return core_id < fold.extra ? 2 * core_id : core_id + fold.extra;
  };
  const int n_rounds = log2_ceil(fold.core);
  Held held{in};
  if (folded) {
    const Ref theirs = b.tmp(n_bytes);
    const auto got = b.recv(me + 1, theirs, n_bytes, kBefore);
    held = add(b, shape, held, theirs, got, false, n_rounds > 0 ? b.tmp(n_bytes) : out);
  }
  PlanBuilder::Id sends_input = 0;
  for (int k = 0; k < n_rounds; ++k) {
    const int peer = rank_of(id ^ (1 << k));
    const auto round = static_cast<std::uint32_t>(k);
    const Ref theirs = b.tmp(n_bytes);
    const auto sent = b.send(peer, held.data, n_bytes, round);
    if (held.by_step) b.after(sent, held.made);
    const auto got = b.recv(peer, theirs, n_bytes, round);
    const bool last = k + 1 == n_rounds;
    held = add(b, shape, held, theirs, got, peer < me, last ? out : b.tmp(n_bytes));
    // The sum in the output may overwrite the input, which the first round sends.
    if (k == 0) sends_input = sent;
    if (last && shape.in_place) b.after(held.made, sends_input);
  }
  if (shape.n_ranks == 1) held = {out, b.reduce({out}, {in}, shape.count), true};
  b.finish(held.made);
  if (folded) b.after(b.send(me + 1, out, n_bytes, kAfter), held.made);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kAllReduceRecursiveDoubling = {Coll::all_reduce,
                                               "recursive_doubling",
                                               "log2 P rounds of whole partial sums",
                                               "Thakur, Rabenseifner, Gropp 2005",
                                               reject,
                                               cost_us,
                                               plan};

}  // namespace rlx
