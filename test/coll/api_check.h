// SPDX-License-Identifier: MIT OR Apache-2.0
// What the files of api_check share.
#pragma once

#include <rlx/rlx.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

inline int g_rank = 0, g_size = 1;

#define CHECK(condition)                                                                        \
  do {                                                                                          \
    if (!(condition)) {                                                                         \
      std::fprintf(stderr, "%s:%d: rank %d: %s is false; last error: %s\n", __FILE__, __LINE__, \
                   g_rank, #condition, rlx_error_text());                                       \
      std::exit(1);                                                                             \
    }                                                                                           \
  } while (false)
#define OK(call) CHECK((call) == RLX_SUCCESS)

using Floats = std::vector<float>;

inline bool refused(int error, const char* words) {
  return error == RLX_ERR_INVALID && std::strstr(rlx_error_text(), words) != nullptr;
}

inline Floats numbers(std::uint64_t n, int rank) {
  Floats v(n);
  for (std::uint64_t i = 0; i < n; ++i)
    v[i] = static_cast<float>((i * 3 + static_cast<unsigned>(rank) * 7) % 101);
  return v;
}

inline Floats sum_of_all(std::uint64_t n) {
  Floats sum(n, 0);
  for (int r = 0; r < g_size; ++r) {
    const Floats v = numbers(n, r);
    for (std::uint64_t i = 0; i < n; ++i) sum[i] += v[i];
  }
  return sum;
}

// api_check_collectives.cc
void collectives(rlx_comm comm, std::uint64_t n);
void v_collectives(rlx_comm comm, std::uint64_t shift);
void v_collectives_overlapping(rlx_comm comm);
void pool_memory(rlx_comm comm);
void exact_leaves(rlx_comm comm);
