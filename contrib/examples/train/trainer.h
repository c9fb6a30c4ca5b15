// SPDX-License-Identifier: MIT OR Apache-2.0
// One training step over all ranks.
//
// A step's batch is cut into leaves, of which each rank computes some. Fast mode has one leaf a
// rank; its gradient is summed by all_reduce, a bucket at a time, while the backward pass goes on.
// Exact mode has 8 leaves whatever the number of ranks and sums them exactly, so the weights are
// the same to the last bit for any number of ranks.
#pragma once

#include <cstdint>
#include <rlx/rlx.hpp>
#include <vector>

#include "model.h"
#include "state.h"
#include "text.h"

namespace train {

inline constexpr std::uint32_t kExactLeaves = 8;

class Trainer {
 public:
  Trainer(const rlx::World& world, const Text& text, const Leaves& leaves, State state, bool exact);

  struct Outcome {
    double loss = 0;      // of this step, bits per byte
    double progress = 0;  // rank 0's `progress`, on all ranks
  };
  // Collective. `lr` is the same on all ranks; `progress` is rank 0's to tell the others.
  Outcome step(double lr, double progress);
  // Collective. Bits per byte of the held-out text, the same for any number of ranks in exact
  // mode.
  double evaluate();

  const State& state() const { return state_; }
  // Collective: the hash of the weights. Throws Failure if ranks have different weights.
  std::uint64_t weights_hash() const;

 private:
  void draw(std::uint32_t leaf);
  void forward_and_backward(std::uint32_t leaf);
  void bucket_ready(std::size_t bucket);
  void update(double lr);

  const rlx::World& world_;
  const Text& text_;
  Leaves leaves_;
  State state_;
  Model model_;
  rlx::Buffer<float> gradient_;
  std::vector<rlx::Request> requests_;     // of the buckets, in fast mode
  std::vector<rlx::ExactSum> exact_sums_;  // of the buckets, in exact mode
  std::vector<double> losses_;             // of all leaves, then the progress
  rlx::Request losses_request_;
  std::vector<std::uint8_t> windows_;
};

}  // namespace train
