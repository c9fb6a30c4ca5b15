// SPDX-License-Identifier: MIT OR Apache-2.0
// Random numbers that are the same on every machine and compiler (splitmix64, Steele et al. 2014).
#pragma once

#include <cmath>
#include <cstdint>

namespace train {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  // In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }
  // Mean 0, deviation 1, by the sum of 12 uniforms: no libm call whose last bit may differ.
  double normal() {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += uniform();
    return sum;
  }

 private:
  std::uint64_t state_;
};

}  // namespace train
