// SPDX-License-Identifier: MIT OR Apache-2.0
// A shape says everything about a collective call that its plan depends on, and nothing else: no
// pointer to user data, no fabric. Equal shapes have equal plans, so plans are cached by shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace rlx {

enum class Coll : std::uint8_t {
  barrier,
  broadcast,
  reduce,
  all_reduce,
  all_gather,
  all_gatherv,
  reduce_scatter,
  all_to_all,
  all_to_allv,
  gather,
  gatherv,
  scatter,
  scatterv,
};
inline constexpr int kCollCount = 13;

// Values are part of the C ABI (rlx_mode).
enum class Mode : std::uint8_t { fast, ordered, exact };

std::string_view name_of(Coll coll);
std::string_view name_of(Mode mode);

constexpr bool is_v(Coll coll) {
  return coll == Coll::all_gatherv || coll == Coll::all_to_allv || coll == Coll::gatherv ||
         coll == Coll::scatterv;
}

// Counts and offsets of the v forms, in elements, one entry a rank. Which are set, and where:
//   all_gatherv             recv       (the same on all ranks)
//   all_to_allv             send and recv
//   gatherv                 recv on the root; elsewhere `count` says what this rank gives
//   scatterv                send on the root; elsewhere `count` says what this rank gets
struct Blocks {
  std::span<const std::uint64_t> counts;
  std::span<const std::uint64_t> displs;
};

struct Shape {
  Coll coll = Coll::barrier;
  Dtype dtype = Dtype::u8;
  Op op = Op::sum;
  Mode mode = Mode::fast;
  std::int32_t root = 0;
  std::int32_t rank = 0;
  std::int32_t n_ranks = 1;
  std::uint64_t count = 0;  // as in include/rlx/rlx.h: elements of one block

  // Facts of this rank alone: two ranks may differ, so they must not change which algorithm is
  // chosen or how many phases a plan has.
  bool in_place = false;  // the input lies where the result goes (rlx.h says where)
  bool pooled = false;    // input and output are both in memory that peers on the host can reach

  // Facts that all ranks share.
  bool one_host = false;  // all ranks map each other's Area (coll/area.h)

  Blocks send = {}, recv = {};  // v forms only

  bool is_v() const { return rlx::is_v(coll); }
  bool is_root() const { return rank == root; }
  std::uint64_t n_bytes() const { return count * size_of(dtype); }  // of one block
};

// Bytes that algorithms are compared by: the larger of what one rank gives and gets. The same on
// all ranks (v forms without common counts: 0).
std::uint64_t payload_bytes(const Shape& shape);

}  // namespace rlx
