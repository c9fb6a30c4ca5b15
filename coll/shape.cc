// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/shape.h"

#include <algorithm>

namespace rlx {

std::string_view name_of(Coll coll) {
  static constexpr std::string_view kNames[kCollCount] = {
      "barrier",     "broadcast",      "reduce",     "all_reduce",  "all_gather",
      "all_gatherv", "reduce_scatter", "all_to_all", "all_to_allv", "gather",
      "gatherv",     "scatter",        "scatterv"};
  return kNames[static_cast<int>(coll)];
}

std::string_view name_of(Mode mode) {
  static constexpr std::string_view kNames[] = {"fast", "ordered", "exact"};
  return kNames[static_cast<int>(mode)];
}

std::uint64_t payload_bytes(const Shape& shape) {
  switch (shape.coll) {
    case Coll::barrier:
    case Coll::all_to_allv:
    case Coll::gatherv:
    case Coll::scatterv:
      return 0;
    case Coll::broadcast:
    case Coll::reduce:
    case Coll::all_reduce:
      return shape.n_bytes();
    case Coll::all_gather:
    case Coll::reduce_scatter:
    case Coll::all_to_all:
    case Coll::gather:
    case Coll::scatter:
      return shape.n_bytes() * static_cast<std::uint64_t>(shape.n_ranks);
    case Coll::all_gatherv: {
      std::uint64_t total = 0;
      for (const std::uint64_t n : shape.recv.counts) total += n;
      return total * size_of(shape.dtype);
    }
  }
  return 0;
}

}  // namespace rlx
