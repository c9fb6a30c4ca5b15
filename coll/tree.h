// SPDX-License-Identifier: MIT OR Apache-2.0
// Trees over ranks, numbered from the root: position = (rank - root) mod P.
#pragma once

#include <vector>

namespace rlx {

struct TreeNode {
  int parent = -1;            // -1: the root
  std::vector<int> children;  // ranks, the one with the largest subtree first
};

TreeNode binomial_node(int rank, int root, int n_ranks);
TreeNode chain_node(int rank, int root, int n_ranks);

}  // namespace rlx
