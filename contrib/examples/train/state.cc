// SPDX-License-Identifier: MIT OR Apache-2.0
#include "state.h"

#include <cmath>

namespace train {

void adam(State& state, Range range, std::span<const float> gradient, float scale, double lr) {
  constexpr float kBeta1 = 0.9F;
  constexpr float kBeta2 = 0.99F;
  constexpr float kEpsilon = 1e-8F;
  const auto t = static_cast<double>(state.step + 1);
  const auto rate = static_cast<float>(lr / (1 - std::pow(double{kBeta1}, t)));
  const auto correct = static_cast<float>(1 / (1 - std::pow(double{kBeta2}, t)));
  float* p = &state.parameters[range.begin];
  float* m = &state.mean[range.begin];
  float* s = &state.square[range.begin];
  const float* g = &gradient[range.begin];
  for (std::uint64_t i = 0; i < range.count; ++i) {
    const float x = g[i] * scale;
    m[i] += (1 - kBeta1) * (x - m[i]);
    s[i] += (1 - kBeta2) * (x * x - s[i]);
    p[i] -= rate * m[i] / (std::sqrt(s[i] * correct) + kEpsilon);
  }
}

}  // namespace train
