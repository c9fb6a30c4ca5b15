// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies of a few bytes without a call: most messages are shorter than a call to memcpy is long.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rlx {

// N bytes, or the first and the last N, which overlap unless n == 2 N.
template <std::size_t N>
inline void copy_ends(char* to, const char* from, std::size_t n) {
  char first[N], last[N];
  std::memcpy(first, from, N);
  if (n == N) {
    std::memcpy(to, first, N);
    return;
  }
  std::memcpy(last, from + n - N, N);
  std::memcpy(to, first, N);
  std::memcpy(to + n - N, last, N);
}

inline void copy_bytes(void* to_memory, const void* from_memory, std::size_t n) {
  auto* const to = static_cast<char*>(to_memory);
  const auto* const from = static_cast<const char*>(from_memory);
  if (n > 64) [[unlikely]]
    std::memcpy(to, from, n);
  else if (n >= 32)
    copy_ends<32>(to, from, n);
  else if (n >= 16)
    copy_ends<16>(to, from, n);
  else if (n >= 8)
    copy_ends<8>(to, from, n);
  else if (n >= 4)
    copy_ends<4>(to, from, n);
  else
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
}

}  // namespace rlx
