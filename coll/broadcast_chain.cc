// SPDX-License-Identifier: MIT OR Apache-2.0
// Pipelined chain broadcast: the data runs from rank to rank in segments.
// Shape: count elements of the root into every rank's buffer (in == out); any P, count, root.
// Cost: P - 2 + S / segment rounds of one segment; every rank sends S bytes. For large S.
// Order: nothing is reduced.
// Source: Pješivac-Grbović et al. 2007.   Tested by test/coll/test_plans.cc
#include "coll/algorithms.h"
#include "coll/pattern.h"
#include "coll/tree.h"

namespace rlx {
namespace {

// Rounds are 16 bits of the tag.
constexpr std::uint64_t kMostSegments = 32768;

std::uint64_t segment_bytes(std::uint64_t n_bytes, const Params& params) {
  return std::max(params.message_bytes, n_cuts(n_bytes, kMostSegments));
}

const char* reject(const Shape&) { return nullptr; }

double cost_us(const Shape& shape, const Model& model) {
  const auto n = static_cast<double>(shape.n_bytes());
  const auto segment = std::min(n, static_cast<double>(Params{}.message_bytes));
  const double hops = std::max(shape.n_ranks - 2, 0);
  const double rounds = hops + (segment > 0 ? n / segment : 1);
  return rounds * (model.alpha_us + segment * model.beta_us) + hops * model.switch_us +
         model.alpha_us;
}

Plan plan(const Shape& shape, const Params& params) {
  auto b = PlanBuilder::graph();
  const TreeNode node = chain_node(shape.rank, shape.root, shape.n_ranks);
  const std::uint64_t n_bytes = shape.n_bytes(), segment = segment_bytes(n_bytes, params);
  // An empty message still carries the fingerprint.
  const std::uint64_t n_segments = std::max<std::uint64_t>(n_cuts(n_bytes, segment), 1);
  for (std::uint64_t s = 0; s < n_segments; ++s) {
    const Ref data{Space::out, 0, s * segment};
    const std::uint64_t n = std::min(segment, n_bytes - s * segment);
    const auto round = static_cast<std::uint32_t>(s);
    PlanBuilder::Id got = 0;
    if (node.parent >= 0) got = b.recv(node.parent, data, n, round);
    for (const int child : node.children) {
      const auto sent = b.send(child, data, n, round);
      if (node.parent >= 0) b.after(sent, got);
    }
  }
  return std::move(b).seal();
}

}  // namespace

const Algorithm kBroadcastChain = {Coll::broadcast,
                                   "chain",
                                   "from rank to rank in segments",
                                   "Pjesivac-Grbovic et al. 2007",
                                   reject,
                                   cost_us,
                                   plan};

}  // namespace rlx
