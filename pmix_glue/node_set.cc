// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/node_set.h"

#include <algorithm>

namespace rlx::pmix {

NodeSet::NodeSet(std::vector<uint32_t> nodes) {
  std::sort(nodes.begin(), nodes.end());
  for (const uint32_t node : nodes) {
    if (!ranges_.empty() && node <= ranges_.back().second) continue;
    if (!ranges_.empty() && node == ranges_.back().second + 1)
      ranges_.back().second = node;
    else
      ranges_.emplace_back(node, node);
  }
}

bool NodeSet::append(Range range) {
  if (range.first > range.second) return false;
  if (!ranges_.empty() && range.first <= ranges_.back().second) return false;
  ranges_.push_back(range);
  return true;
}

bool NodeSet::contains(uint32_t node) const {
  const auto next = std::upper_bound(ranges_.begin(), ranges_.end(), Range{node, UINT32_MAX});
  return next != ranges_.begin() && std::prev(next)->second >= node;
}

bool NodeSet::intersects(const NodeSet& other) const {
  auto a = ranges_.begin();
  auto b = other.ranges_.begin();
  while (a != ranges_.end() && b != other.ranges_.end()) {
    if (a->second < b->first)
      ++a;
    else if (b->second < a->first)
      ++b;
    else
      return true;
  }
  return false;
}

bool NodeSet::is_within(const NodeSet& other) const {
  return std::all_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    const auto next = std::upper_bound(other.ranges_.begin(), other.ranges_.end(),
                                       Range{range.first, UINT32_MAX});
    return next != other.ranges_.begin() && std::prev(next)->second >= range.second;
  });
}

}  // namespace rlx::pmix
