// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/communicator.h"

#include <algorithm>
#include <utility>

namespace rlx {

Communicator::Communicator(Engine& engine, Group group, Selector selector, int channel)
    : collectives_(engine, std::move(group), std::move(selector)), channel_(channel) {
  const auto& world = this->group().world;
  const int highest = *std::max_element(world.begin(), world.end());
  from_world_.assign(static_cast<std::size_t>(highest) + 1, -1);
  for (std::size_t r = 0; r < world.size(); ++r)
    from_world_[static_cast<std::size_t>(world[r])] = static_cast<int>(r);
}

int Communicator::from_world(int world_rank) const {
  const auto index = static_cast<std::size_t>(world_rank);
  return world_rank >= 0 && index < from_world_.size() ? from_world_[index] : -1;
}

}  // namespace rlx
