// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/tree.h"

namespace rlx {

TreeNode binomial_node(int rank, int root, int n_ranks) {
  const int position = (rank - root + n_ranks) % n_ranks;
  const auto rank_at = [&](int at) { return (at + root) % n_ranks; };
  TreeNode node;
  int bit = 1;
  while (bit < n_ranks && (position & bit) == 0) bit *= 2;
  if (position != 0) node.parent = rank_at(position - bit);
  for (bit /= 2; bit > 0; bit /= 2)
    if (position + bit < n_ranks) node.children.push_back(rank_at(position + bit));
  return node;
}

TreeNode chain_node(int rank, int root, int n_ranks) {
  const int position = (rank - root + n_ranks) % n_ranks;
  TreeNode node;
  if (position != 0) node.parent = (rank - 1 + n_ranks) % n_ranks;
  if (position + 1 < n_ranks) node.children.push_back((rank + 1) % n_ranks);
  return node;
}

}  // namespace rlx
