// SPDX-License-Identifier: MIT OR Apache-2.0
// What the benchmarks send and what must come out: small whole numbers, exact in every element
// type, that differ by rank, index and round.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace perf {

inline std::size_t element_size(const std::string& dtype) {
  if (dtype == "i8" || dtype == "u8") return 1;
  if (dtype == "f16" || dtype == "bf16") return 2;
  if (dtype == "i32" || dtype == "u32" || dtype == "f32") return 4;
  if (dtype == "i64" || dtype == "u64" || dtype == "f64") return 8;
  return 0;
}

// Bits of the whole number n (0 .. 2047) in each type.
inline std::uint64_t encode(const std::string& dtype, std::uint32_t n) {
  if (dtype == "f64") {
    const double value = n;
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
  }
  if (dtype != "f32" && dtype != "f16" && dtype != "bf16") return n;
  const float value = static_cast<float>(n);
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (dtype == "f32") return bits;
  if (dtype == "bf16") return bits >> 16;
  return n == 0 ? 0 : (((bits >> 23) - 127 + 15) << 10) | ((bits >> 13) & 0x3ff);
}

// A rank's contribution at index i: 0 .. 3, so that sums over up to 42 ranks fit in i8 and are
// exact in bf16.
inline std::uint32_t element(int rank, std::uint64_t i, std::uint64_t round) {
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(rank) + i + i / 7 + round) & 3);
}

// The encodings of 0 .. 255 once, so that filling costs a table look-up.
class Encoding {
 public:
  explicit Encoding(const std::string& dtype) : size_(element_size(dtype)) {
    for (std::uint32_t n = 0; n < 256; ++n) bits_[n] = encode(dtype, n);
  }
  void put(void* data, std::uint64_t i, std::uint32_t n) const {
    std::memcpy(static_cast<char*>(data) + i * size_, &bits_[n], size_);
  }
  bool is(const void* data, std::uint64_t i, std::uint32_t n) const {
    return std::memcmp(static_cast<const char*>(data) + i * size_, &bits_[n & 255], size_) == 0;
  }

 private:
  std::size_t size_;
  std::uint64_t bits_[256];
};

inline void fill(const std::string& dtype, void* data, std::uint64_t n, int rank,
                 std::uint64_t round) {
  const Encoding encoding(dtype);
  for (std::uint64_t i = 0; i < n; ++i) encoding.put(data, i, element(rank, i, round));
}

inline bool is_reduction(const std::string& test) {
  return test == "reduce" || test == "all_reduce" || test == "reduce_scatter";
}
inline bool has_blocks_in(const std::string& test) {
  return test == "reduce_scatter" || test == "all_to_all" || test == "scatter";
}
inline bool has_blocks_out(const std::string& test) {
  return test == "all_gather" || test == "all_to_all" || test == "gather";
}
inline bool is_blocked(const std::string& test) {
  return has_blocks_in(test) || has_blocks_out(test);
}

// nccl-tests' factor from algorithm to bus bandwidth.
inline double bus_factor(const std::string& test, int p) {
  const double n = p;
  if (test == "all_reduce") return 2 * (n - 1) / n;
  if (is_blocked(test)) return (n - 1) / n;
  return 1;
}

// Is `out` what `test` must give on this rank? Root is 0, the operation is the sum.
inline bool check(const std::string& dtype, const std::string& test, const void* out,
                  std::uint64_t count, int rank, int p, std::uint64_t round) {
  const Encoding encoding(dtype);
  const bool root_only = test == "reduce" || test == "gather";
  if (test == "barrier" || (root_only && rank != 0)) return true;
  const std::uint64_t blocks = has_blocks_out(test) ? static_cast<std::uint64_t>(p) : 1;
  for (std::uint64_t b = 0; b < blocks; ++b)
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint32_t want = 0;
      const std::uint64_t mine = static_cast<std::uint64_t>(rank) * count + i;
      if (test == "reduce_scatter")
        for (int r = 0; r < p; ++r) want += element(r, mine, round);
      else if (is_reduction(test))
        for (int r = 0; r < p; ++r) want += element(r, i, round);
      else if (test == "broadcast")
        want = element(0, i, round);
      else if (test == "scatter")
        want = element(0, mine, round);
      else
        want = element(static_cast<int>(b), test == "all_to_all" ? mine : i, round);
      if (!encoding.is(out, b * count + i, want)) return false;
    }
  return true;
}

inline void fill_bytes(void* data, std::uint64_t n, int rank) {
  auto* bytes = static_cast<unsigned char*>(data);
  for (std::uint64_t i = 0; i < n; ++i)
    bytes[i] = static_cast<unsigned char>(i * 7 + i / 256 + static_cast<unsigned>(rank) * 31);
}

inline bool bytes_are(const void* data, std::uint64_t n, int rank) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  for (std::uint64_t i = 0; i < n; ++i)
    if (bytes[i] != static_cast<unsigned char>(i * 7 + i / 256 + static_cast<unsigned>(rank) * 31))
      return false;
  return true;
}

}  // namespace perf
