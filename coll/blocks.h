// SPDX-License-Identifier: MIT OR Apache-2.0
// What the algorithms share that send every block straight to where it belongs: gather, scatter,
// all_gather, all_to_all and their v forms.
#pragma once

#include "coll/algorithm.h"
#include "coll/pattern.h"

namespace rlx {

// Block r of a side, in bytes: one after the other, or as counts and displs of a v form say.
inline Range block_of(const Shape& shape, const Blocks& blocks, int r) {
  const std::uint64_t size = size_of(shape.dtype);
  const auto at = static_cast<std::size_t>(r);
  if (shape.is_v()) return {blocks.displs[at] * size, blocks.counts[at] * size};
  return {at * shape.n_bytes(), shape.n_bytes()};
}

// One round, in which some rank sends or receives P-1 blocks.
inline double blocks_cost_us(const Shape& shape, const Model& model) {
  const double p = shape.n_ranks;
  const auto n = static_cast<double>(payload_bytes(shape));
  return model.alpha_us + model.switch_us +
         (p - 1) * (0.2 * model.alpha_us + n / p * model.beta_us);
}

}  // namespace rlx
