// SPDX-License-Identifier: MIT OR Apache-2.0
// exp, log and random numbers that give the same bits everywhere: only IEEE basic operations,
// square root and scaling by powers of two, all exactly defined (the standard library's exp is
// not).
#pragma once

#include <cmath>
#include <cstdint>

namespace rlx::sched {

// Relative error below 1e-15 for |x| < 700.
inline double portable_exp(double x) {
  constexpr double kLn2 = 0.693147180559945309;
  const double n = std::floor(x / kLn2 + 0.5), r = (x - n * kLn2) / 16;
  double sum = 1, term = 1;
  for (int i = 1; i < 12; ++i) sum += term *= r / i;
  for (int i = 0; i < 4; ++i) sum *= sum;
  return std::ldexp(sum, static_cast<int>(n));
}

// x > 0.
inline double portable_log(double x) {
  int exponent;
  const double m = std::frexp(x, &exponent),
               y = (m - 0.70710678118654752) / (m + 0.70710678118654752);
  double sum = 0, power = y;
  for (int i = 1; i < 40; i += 2, power *= y * y) sum += power / i;
  return 2 * sum + (exponent - 0.5) * 0.693147180559945309;
}

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t bits() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }  // [0, 1)
  int below(int n) { return static_cast<int>(uniform() * n); }
  double normal() {  // sum of twelve uniforms: good to about 3.5 sigma, which loads need
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  uint64_t state_;
};

}  // namespace rlx::sched
