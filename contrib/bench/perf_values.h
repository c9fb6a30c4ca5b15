// SPDX-License-Identifier: MIT OR Apache-2.0
// Contributions of sums that a rounding addition cannot sum by luck, for measuring exact sums:
// normal N(0,1), spread6 N(0,1) 2^(6 N(0,1)), wide exponents that are uniform over 200 bits. As
// f16 they are cut to what it holds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "contrib/bench/perf_elements.h"

namespace perf {

#ifdef __SIZEOF_FLOAT128__
using Wide = __float128;
#else
using Wide = long double;  // as wide where there is no other
#endif

class Values {
 public:
  Values(const std::string& kind, const std::string& dtype)
      : dtype_(dtype), size_(element_size(dtype)) {
    std::mt19937_64 rng(1);
    for (std::size_t i = 0; i < kTable; ++i) {
      const double value = narrow(draw(kind, rng));
      values_.push_back(value);
      bits_.push_back(bits_of(value));
    }
  }

  void fill(void* data, std::uint64_t n, int rank, std::uint64_t round) const {
    for (std::uint64_t i = 0; i < n; ++i)
      std::memcpy(static_cast<char*>(data) + i * size_, &bits_[index(rank, i, round)], size_);
  }

  // Is `out` the sum of elements [first, first + count) over p ranks? Exact: to the last bit in f32
  // and f64. Otherwise within the rounding of p additions. Of many elements a sample is looked at.
  bool check(const void* out, std::uint64_t first, std::uint64_t count, int p, std::uint64_t round,
             bool exact) const {
    const std::uint64_t step = std::max<std::uint64_t>(1, count / kSample);
    for (std::uint64_t i = 0; i < count; i += step) {
      Wide sum = 0, lost = 0;
      double most = 0;
      for (int r = 0; r < p; ++r) {
        const double value = values_[index(r, first + i, round)];
        add(sum, lost, value);
        most += std::fabs(value);
      }
      const double got = load(out, i);
      const bool right = exact && dtype_ == "f32" ? got == rounded<float>(sum, lost)
                         : exact && dtype_ == "f64"
                             ? got == rounded<double>(sum, lost)
                             : std::fabs(got - static_cast<double>(sum)) <= p * unit() * most;
      if (!right) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t kTable = 1 << 16;
  static constexpr std::uint64_t kSample = 1 << 16;

  // sum + lost grows by value, but for the rounding of `lost` (Knuth's two-sum).
  static void add(Wide& sum, Wide& lost, double value) {
    const Wide next = sum + value, part = next - sum;
    lost += (sum - (next - part)) + (value - part);
    sum = next;
  }

  // sum + lost, where only half way between two numbers `lost` matters.
  template <class T>
  static T rounded(Wide sum, Wide lost) {
    const T near = static_cast<T>(sum);
    const T other = std::nextafter(near, sum > near ? T(INFINITY) : -T(INFINITY));
    if (lost == 0 || sum == near || sum - near != other - sum) return near;
    return lost > 0 ? std::max(near, other) : std::min(near, other);
  }

  static std::size_t index(int rank, std::uint64_t i, std::uint64_t round) {
    std::uint64_t x = i + round * 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(rank) * 77777777;
    x = (x ^ x >> 17) * 0xd6e8feb86659fd93;
    return x >> 48;
  }

  static double draw(const std::string& kind, std::mt19937_64& rng) {
    std::normal_distribution<double> normal;
    if (kind == "normal") return normal(rng);
    if (kind == "spread6") return normal(rng) * std::exp2(6 * normal(rng));
    const double size = 1 + std::uniform_real_distribution<double>()(rng);
    return std::ldexp(rng() % 2 ? size : -size, static_cast<int>(rng() % 200) - 100);
  }

  int precision() const {
    return dtype_ == "f64" ? 53 : dtype_ == "f32" ? 24 : dtype_ == "f16" ? 11 : 8;
  }
  double unit() const { return std::ldexp(1, 1 - precision()); }

  // What the type holds. Only normal numbers, which keeps the encoding short.
  double narrow(double value) const {
    if (dtype_ == "f16")
      value = std::copysign(std::clamp(std::fabs(value), 0x1p-14, 0x1p14), value);
    int exponent;
    const double fraction = std::frexp(value, &exponent);
    return std::ldexp(std::nearbyint(std::ldexp(fraction, precision())), exponent - precision());
  }

  std::uint64_t bits_of(double value) const {
    if (dtype_ == "f64") {
      std::uint64_t bits;
      std::memcpy(&bits, &value, sizeof bits);
      return bits;
    }
    const auto single = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &single, sizeof bits);
    if (dtype_ == "f32") return bits;
    if (dtype_ == "bf16") return bits >> 16;
    return (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3FFFF) - (112u << 10));
  }

  double load(const void* data, std::uint64_t i) const {
    std::uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(data) + i * size_, size_);
    if (dtype_ == "f64") {
      double value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    auto wide = static_cast<std::uint32_t>(bits);
    if (dtype_ == "bf16") wide <<= 16;
    if (dtype_ == "f16") return load_f16(wide);
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  static double load_f16(std::uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31),
              fraction = static_cast<int>(bits & 1023);
    const double size =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -size : size;
  }

  std::string dtype_;
  std::size_t size_;
  std::vector<double> values_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace perf
