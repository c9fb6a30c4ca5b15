// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/carrier.h"

namespace rlx::pmix {

std::map<uint32_t, TreePlace> places_of(const std::vector<uint32_t>& parents) {
  std::map<uint32_t, TreePlace> places;
  places[kRoot].self = kRoot;
  for (uint32_t i = 0; i < parents.size(); ++i) {
    places[i].self = i;
    places[i].parent = parents[i];
    places[parents[i]].children.push_back({i, {}});
  }
  for (uint32_t i = 0; i < parents.size(); ++i)
    for (uint32_t at = i; at != kRoot; at = parents[at])
      for (auto& child : places[parents[at]].children)
        if (child.node == at) child.subtree.push_back(i);
  return places;
}

}  // namespace rlx::pmix
