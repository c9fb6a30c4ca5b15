// SPDX-License-Identifier: MIT OR Apache-2.0
// Slow, obvious arithmetic that the kernels are compared with. Shares no code with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/isa.h"

namespace rlx::oracle {

struct Shape {
  int precision, lowest, highest;  // bits; exponents of the smallest subnormal and the largest
};

inline Shape shape_of(Dtype dtype) {
  switch (dtype) {
    case Dtype::f16:
      return {11, -24, 15};
    case Dtype::bf16:
      return {8, -133, 127};
    case Dtype::f32:
      return {24, -149, 127};
    default:
      return {53, -1074, 1023};
  }
}

// The value of an f16 or bf16 by the definition of the format.
inline double decode16(Dtype dtype, std::uint16_t bits) {
  const int fraction_bits = shape_of(dtype).precision - 1, exponent_bits = 15 - fraction_bits;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits >> 15 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  const int lowest = shape_of(dtype).lowest;
  if (exponent == 0) return sign * std::ldexp(fraction, lowest);
  return sign * std::ldexp(fraction + (1 << fraction_bits), lowest + exponent - 1);
}

// Bits of a value that the format holds exactly (NaN: the canonical one).
inline std::uint16_t encode16(Dtype dtype, double value) {
  const Shape shape = shape_of(dtype);
  const int fraction_bits = shape.precision - 1;
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const int top = ((1 << (15 - fraction_bits)) - 1) << fraction_bits;
  if (std::isnan(value)) return static_cast<std::uint16_t>(top | 1 << (fraction_bits - 1));
  if (std::isinf(value)) return static_cast<std::uint16_t>(sign | top);
  const int units_exponent =
      std::max(value == 0 ? shape.lowest : std::ilogb(value) - fraction_bits, shape.lowest);
  const auto units = static_cast<int>(std::ldexp(std::fabs(value), -units_exponent));
  const int steps = units_exponent - shape.lowest;  // each step doubles the unit
  return static_cast<std::uint16_t>(sign | (units + (steps << fraction_bits)));
}

inline double load(Dtype dtype, const void* data, std::size_t i) {
  switch (dtype) {
    case Dtype::f32:
      return static_cast<const float*>(data)[i];
    case Dtype::f64:
      return static_cast<const double*>(data)[i];
    default:
      return decode16(dtype, static_cast<const std::uint16_t*>(data)[i]);
  }
}

// The bits that the value, which the format holds exactly, has in memory.
inline std::uint64_t bits_of(Dtype dtype, double value) {
  if (dtype == Dtype::f64) {
    if (std::isnan(value)) return 0x7FF8000000000000u;
    std::uint64_t bits;
    std::memcpy(&bits, &value, 8);
    return bits;
  }
  if (dtype == Dtype::f32) {
    if (std::isnan(value)) return 0x7FC00000u;
    const auto narrow = static_cast<float>(value);
    std::uint32_t bits;
    std::memcpy(&bits, &narrow, 4);
    return bits;
  }
  return encode16(dtype, value);
}

inline std::uint64_t stored_bits(Dtype dtype, const void* data, std::size_t i) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + i * size_of(dtype), size_of(dtype));
  return bits;
}

// Exact sum of doubles: signed digits of 32 bits, carried only at the end.
class ExactSum {
 public:
  void add(double x) {
    only_minus_zero_ = only_minus_zero_ && x == 0 && std::signbit(x);
    if (!std::isfinite(x)) {
      special_ += x;
      is_special_ = true;
      return;
    }
    if (x == 0) return;
    int exponent;
    const double fraction = std::frexp(x, &exponent);  // x = fraction 2^exponent
    auto significand = static_cast<std::int64_t>(std::ldexp(fraction, 53));
    int at = exponent - 53 + 1074 + 53;  // digits_ start at 2^-1127, below every subnormal's unit
    const bool negative = significand < 0;
    unsigned __int128 wide = static_cast<unsigned __int128>(negative ? -significand : significand)
                             << at % 32;
    for (at /= 32; wide != 0; wide >>= 32, ++at)
      digits_[at] += (negative ? -1 : 1) * static_cast<std::int64_t>(wide & 0xFFFFFFFFu);
  }

  double round(Dtype dtype) const {
    if (is_special_) return special_;
    if (only_minus_zero_) return -0.0;
    std::int64_t digits[kDigits];
    const bool negative = carry(digits);
    const Shape shape = shape_of(dtype);
    int top = kDigits * 32 - 1;
    while (top >= 0 && !(digits[top / 32] >> top % 32 & 1)) --top;
    if (top < 0) return 0;
    const int low = std::max(top - shape.precision + 1, shape.lowest + 1127);
    std::uint64_t significand = 0;
    bool half = false, more = false;
    for (int i = top; i >= 0; --i) {
      const bool bit = digits[i / 32] >> i % 32 & 1;
      if (i >= low)
        significand = significand * 2 + bit;
      else if (i == low - 1)
        half = bit;
      else
        more = more || bit;
    }
    if (half && (more || significand % 2)) ++significand;
    double value = std::ldexp(static_cast<double>(significand), low - 1127);
    if (value > std::ldexp(2 - std::ldexp(1, 1 - shape.precision), shape.highest)) value = INFINITY;
    return negative ? -value : value;
  }

 private:
  static constexpr int kDigits = 72;

  // Digits in [0, 2^32) of the magnitude; true if the sum is negative.
  bool carry(std::int64_t* out) const {
    for (const int sign : {1, -1}) {
      std::int64_t rest = 0;
      for (int i = 0; i < kDigits; ++i) {
        rest += sign * digits_[i];
        out[i] = rest & 0xFFFFFFFF;
        rest >>= 32;
      }
      if (rest == 0) return sign < 0;
    }
    return false;
  }

  std::int64_t digits_[kDigits] = {};
  double special_ = 0;
  bool is_special_ = false, only_minus_zero_ = true;
};

// Runs `body` with every instruction set that is compiled and present.
template <class Body>
void on_each_isa(Body body) {
  for (const std::string& name : kernels::isa_names()) {
    kernels::use_isa(name);
    body(name.c_str());
  }
  kernels::use_isa("");
}

}  // namespace rlx::oracle
