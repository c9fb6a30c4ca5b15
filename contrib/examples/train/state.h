// SPDX-License-Identifier: MIT OR Apache-2.0
// What a training run knows after a step: all that a checkpoint keeps.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model.h"

namespace train {

struct State {
  Shape shape;
  std::uint32_t batch = 0;  // windows a step, over all ranks
  std::uint64_t seed = 0;
  std::uint64_t step = 0;  // steps done
  std::vector<float> parameters;
  std::vector<float> mean;    // Adam's moving average of the gradient
  std::vector<float> square;  // and of its square
};

// Adam (Kingma & Ba 2015) with bias correction, for the step after state.step: moves the
// parameters of `range` against scale * gradient, which has the layout of the parameters.
void adam(State& state, Range range, std::span<const float> gradient, float scale, double lr);

}  // namespace train
