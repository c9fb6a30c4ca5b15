// SPDX-License-Identifier: MIT OR Apache-2.0
// A group of ranks with its own message context: what a handle of the C interface stands for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coll/collectives.h"
#include "coll/engine.h"

namespace rlx {

class Communicator {
 public:
  // `channel` is the shared-memory channel this communicator owns, -1 for none.
  Communicator(Engine& engine, Group group, Selector selector, int channel);

  int rank() const { return group().rank; }
  int size() const { return group().size(); }
  int to_world(int rank) const { return group().world[static_cast<std::size_t>(rank)]; }
  int from_world(int world_rank) const;  // -1 if it is not a member
  std::uint32_t context() const { return group().context; }
  const std::string& name() const { return group().name; }
  int channel() const { return channel_; }
  const Group& group() const { return collectives_.group(); }
  Collectives& collectives() { return collectives_; }
  // For names of communicators made from this one: 1, 2, ...
  int next_child() { return ++n_children_; }

 private:
  Collectives collectives_;
  std::vector<int> from_world_;  // rank in the world -> rank here, -1: not a member
  int channel_;
  int n_children_ = 0;
};

}  // namespace rlx
