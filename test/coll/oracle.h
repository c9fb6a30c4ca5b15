// SPDX-License-Identifier: MIT OR Apache-2.0
// What every collective must give, computed the plain way: small whole numbers that every type
// holds exactly, so that every order and every mode has the same result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coll/collectives.h"

namespace rlx::test {

inline constexpr std::byte kUntouched{0xa5};

struct Case {
  Coll coll = Coll::barrier;
  Dtype dtype = Dtype::i32;
  Op op = Op::sum;
  Mode mode = Mode::fast;
  int n_ranks = 1;
  int root = 0;
  std::uint64_t count = 0;
  bool in_place = false;
  int salt = 0;  // other values
};

bool is_rooted(Coll coll);
bool reduces(Coll coll);
// The v forms' counts and displacements, made from `count`: uneven, some 0, with gaps.
struct Uneven {
  std::vector<std::uint64_t> counts, displs;
  std::uint64_t extent = 0;  // elements
};
Uneven uneven_blocks(const Case& c, int rank, bool sends);

// Memory of one rank: where the call's input and output lie.
struct Memory {
  std::uint64_t n_bytes = 0;  // in all
  std::uint64_t in = 0, out = 0;
  bool has_in = false, has_out = false;
};
Memory memory_of(const Case& c, int rank);
// The bytes before and after the call.
std::vector<std::byte> before(const Case& c, int rank);
std::vector<std::byte> after(const Case& c, int rank);
// Keeps the v forms' counts alive as long as the call.
struct BoundCall {
  Call call;
  Uneven send, recv;
};
void bind_call(BoundCall& bound, const Case& c, int rank, std::byte* memory);

std::string to_string(const Case& c);

}  // namespace rlx::test
