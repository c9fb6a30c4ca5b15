// SPDX-License-Identifier: MIT OR Apache-2.0
// A set of nodes as ranges: "all of 4096" is one.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rlx::pmix {

class NodeSet {
 public:
  using Range = std::pair<uint32_t, uint32_t>;  // first and last

  NodeSet() = default;
  explicit NodeSet(std::vector<uint32_t> nodes);
  // False, and nothing is added, when `range` does not lie wholly behind what is here.
  bool append(Range range);
  bool contains(uint32_t node) const;
  bool intersects(const NodeSet& other) const;
  bool is_within(const NodeSet& other) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;  // ascending, with gaps between
};

}  // namespace rlx::pmix
