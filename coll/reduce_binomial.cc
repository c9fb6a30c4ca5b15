// SPDX-License-Identifier: MIT OR Apache-2.0
// Binomial-tree reduce: partial results run up the tree.
// Shape: count elements of every rank into the root's; in == out allowed; any P, count, root.
// Cost: ceil(log2 P) rounds of S bytes; scratch S (1 + children).
// Order: that of the tree, so only where any order will do.
// Source: folklore; Thakur, Rabenseifner, Gropp 2005.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"
#include "coll/tree.h"

namespace rlx {
namespace {

const char* reject(const Shape& shape) {
  return any_order(shape) ? nullptr : "sums in tree order, which this mode does not allow";
}

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  return log2_ceil(shape.n_ranks) *
         (model.alpha_us + n * (model.beta_us + 2 * model.gamma_us) + model.switch_us);
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  b.reduction(shape.dtype, shape.op, false);
  const TreeNode node = binomial_node(shape.rank, shape.root, shape.n_ranks);
  const std::uint64_t n_bytes = shape.n_bytes();
  const Ref in{Space::in};
  std::vector<Ref> parts = {in};
  std::vector<PlanBuilder::Id> got;
  for (const int child : node.children) {
    parts.push_back(b.tmp(n_bytes));
    got.push_back(b.recv(child, parts.back(), n_bytes, 0));
  }
  Ref sum = in;
  if (shape.is_root() || !node.children.empty()) {
    sum = shape.is_root() ? Ref{Space::out} : b.tmp(n_bytes);
    const auto summed = b.reduce({sum}, parts, shape.count);
    b.after(summed, got);
    got = {summed};
    if (shape.is_root()) b.finish(summed);
  }
  if (node.parent >= 0) b.after(b.send(node.parent, sum, n_bytes, 0), got);
  return std::move(b).seal();
}

}  // namespace

const Algorithm kReduceBinomial = {Coll::reduce,
                                   "binomial",
                                   "up a binomial tree, partial sums",
                                   "Thakur, Rabenseifner, Gropp 2005",
                                   reject,
                                   cost_us,
                                   plan};

}  // namespace rlx
