// SPDX-License-Identifier: MIT OR Apache-2.0
// What the launcher's tree of daemons must do for the PMIx servers on it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rlx::pmix {

// The process at the root of the tree (rlxrun itself). Nodes are named by their index in
// Job::nodes.
inline constexpr uint32_t kRoot = UINT32_MAX;

// Brings frames to another vertex of the tree: TreeExchange::deliver(from, frame) on a node,
// TreeRoot::deliver at the root, where `from` is the vertex that called send(). Frames between two
// vertices keep their order, and what a vertex sends to a neighbour stays in order with the
// launcher's own messages on that link, so that a job is known before anybody speaks of it.
// send() never calls deliver() from inside, also when sender and receiver share a process.
class Carrier {
 public:
  virtual ~Carrier() = default;
  // `to` is any vertex: a neighbour, or another that is reached through some.
  virtual void send(uint32_t to, std::string frame) = 0;
};

// Where a vertex stands in the tree. The tree does not change, but for nodes that are lost.
struct TreePlace {
  struct Child {
    uint32_t node = 0;
    std::vector<uint32_t> subtree;  // all nodes reached through it, with itself
  };
  uint32_t self = kRoot;
  uint32_t parent = kRoot;  // of a node; the root has none
  std::vector<Child> children;
};

// The places of all vertices, from the parent of each node: kRoot, or a node before it.
std::map<uint32_t, TreePlace> places_of(const std::vector<uint32_t>& parents);

}  // namespace rlx::pmix
