// SPDX-License-Identifier: MIT OR Apache-2.0
// Binomial-tree broadcast.
// Shape: count elements of the root into every rank's buffer (in == out); any P, count, root.
// Cost: ceil(log2 P) rounds; the root sends S ceil(log2 P) bytes. For small S.
// Order: nothing is reduced.
// Source: folklore; Thakur, Rabenseifner, Gropp 2005.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"
#include "coll/tree.h"

namespace rlx {
namespace {

const char* reject(const Shape&) { return nullptr; }

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  return log2_ceil(shape.n_ranks) * (model.alpha_us + n * model.beta_us + model.switch_us);
}

Plan plan(const Shape& shape, const Params&) {
  auto b = PlanBuilder::graph();
  const TreeNode node = binomial_node(shape.rank, shape.root, shape.n_ranks);
  const Ref data{Space::out};
  PlanBuilder::Id got = 0;
  if (node.parent >= 0) got = b.recv(node.parent, data, shape.n_bytes(), 0);
  for (const int child : node.children) {
    const auto sent = b.send(child, data, shape.n_bytes(), 0);
    if (node.parent >= 0) b.after(sent, got);
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kBroadcastBinomial = {Coll::broadcast,
                                      "binomial",
                                      "down a binomial tree, whole messages",
                                      "Thakur, Rabenseifner, Gropp 2005",
                                      reject,
                                      cost_us,
                                      plan};

}  // namespace rlx
