// SPDX-License-Identifier: MIT OR Apache-2.0
// One exact sum of finite doubles as a wide fixed-point integer: the last resort of exact.h, for
// single elements whose magnitude or number of contributions the vector tiers do not cover.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rlx::kernels {

// What rounding needs to know of a float type.
struct FloatShape {
  int precision;     // bits of the significand, the implied one included
  int lowest_bit;    // exponent of the smallest subnormal
  int max_exponent;  // 2^max_exponent <= largest finite < 2^(max_exponent + 1)
};

inline constexpr FloatShape kF16Shape{11, -24, 15}, kBf16Shape{8, -133, 127},
    kF32Shape{24, -149, 127}, kF64Shape{53, -1074, 1023};

class Superaccumulator {
 public:
  void add(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const int exponent = static_cast<int>(bits >> 52 & 0x7FF);
    const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
    const std::uint64_t significand = exponent == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    const int shift = exponent == 0 ? 0 : exponent - 1;
    add_words(static_cast<unsigned __int128>(significand) << shift % 64, shift / 64, bits >> 63);
  }

  // The sum rounded to nearest even in the given type, as a double (which holds all of them).
  double round(const FloatShape& shape) const {
    const bool negative = words_[kWords - 1] >> 63;
    const Words magnitude = negative ? negated() : words_;
    const int top = highest_bit(magnitude);
    if (top < 0) return 0;
    const int low = std::max(top - shape.precision + 1, shape.lowest_bit + kFraction);
    std::uint64_t significand = 0;
    for (int i = top; i >= low; --i) significand = significand << 1 | bit(magnitude, i);
    if (low > 0 && bit(magnitude, low - 1) && ((significand & 1) || any_below(magnitude, low - 1)))
      ++significand;
    double rounded = std::ldexp(static_cast<double>(significand), low - kFraction);
    if (rounded >= std::ldexp(2.0, shape.max_exponent) && shape.max_exponent < 1023)
      rounded = std::numeric_limits<double>::infinity();
    return negative ? -rounded : rounded;
  }

 private:
  static constexpr int kFraction = 1074;  // bit 0 weighs 2^-1074
  static constexpr int kWords = 35;       // 2098 bits of range, the rest for carries and the sign
  using Words = std::array<std::uint64_t, kWords>;

  void add_words(unsigned __int128 value, int at, bool negative) {
    const std::uint64_t part[2] = {static_cast<std::uint64_t>(value),
                                   static_cast<std::uint64_t>(value >> 64)};
    unsigned carry = 0;
    for (int i = at; i < kWords && (i < at + 2 || carry != 0); ++i) {
      const std::uint64_t operand = i < at + 2 ? part[i - at] : 0;
      const auto wide = negative ? static_cast<unsigned __int128>(words_[i]) - operand - carry
                                 : static_cast<unsigned __int128>(words_[i]) + operand + carry;
      words_[i] = static_cast<std::uint64_t>(wide);
      carry = static_cast<unsigned>(wide >> 64) & 1;
    }
  }

  Words negated() const {
    Words out;
    bool carry = true;
    for (int i = 0; i < kWords; ++i) {
      out[i] = ~words_[i] + carry;
      carry = carry && out[i] == 0;
    }
    return out;
  }

  static bool bit(const Words& words, int i) { return words[i / 64] >> i % 64 & 1; }

  static int highest_bit(const Words& words) {
    for (int i = kWords - 1; i >= 0; --i)
      if (words[i] != 0) return i * 64 + 63 - std::countl_zero(words[i]);
    return -1;
  }

  static bool any_below(const Words& words, int end) {
    for (int i = 0; i < end / 64; ++i)
      if (words[i] != 0) return true;
    return end % 64 != 0 && (words[end / 64] << (64 - end % 64)) != 0;
  }

  Words words_{};
};

}  // namespace rlx::kernels
