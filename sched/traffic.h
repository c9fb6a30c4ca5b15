// SPDX-License-Identifier: MIT OR Apache-2.0
// What a placement costs between nodes and racks: a sample of tokens is played through the dispatch
// rule and the copies that leave their node are counted.
#pragma once

#include "sched/generate.h"
#include "sched/search.h"

namespace rlx::sched {

// Copies of a token that leave its node, a token: one copy a node visited (the node spreads it).
struct Copies {
  double nodes = 0;  // to other nodes
  double racks = 0;  // of these, to other racks
};

// Dispatch rule: token t comes from node t mod nodes; an expert with a replica there is served
// there, else by replica node number t mod (nodes that hold it). Up to 64 nodes.
class Traffic {
 public:
  // `rack_price`: what a copy to another rack costs, in copies to a node of the same rack.
  Traffic(const TokenSample& sample, const Cluster& cluster, int experts, double rack_price);

  Copies copies(const LayerState& state) const;
  // How much the copies of a token, priced, grow if the move is made.
  double change(const LayerState& state, const Move& move) const;
  // The same if `slot` alone went to another node.
  double change(const LayerState& state, int slot, int node) const;

 private:
  using Mask = uint64_t;  // a bit a node
  struct Override {       // nodes of an expert after a change
    int32_t expert = kEmpty;
    Mask nodes = 0;
  };
  template <class Nodes>
  Mask visits(int token, Nodes nodes_of) const;
  double price(int token, Mask visited) const;
  double change(const LayerState& state, Override a, Override b) const;

  const TokenSample& sample_;
  const Cluster& cluster_;
  const double rack_price_;
  std::vector<Mask> near_;                   // by node: the nodes of its rack
  std::vector<std::vector<int>> tokens_of_;  // by expert
};

// Exchanges slots between nodes while that saves traffic and the summed peak stays within `most`.
void save_traffic(LayerState& state, const Traffic& traffic, double most);

}  // namespace rlx::sched
