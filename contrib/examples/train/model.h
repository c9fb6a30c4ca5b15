// SPDX-License-Identifier: MIT OR Apache-2.0
// The language model: the last `context` bytes are looked up in an embedding, joined, and passed
// through rectified hidden layers to a softmax over the next byte.
//
// All parameters live in one array, so that a gradient bucket is a range of it. Layers own ranges
// in this order: embedding, hidden 1 .. n, output; the backward pass completes them in reverse.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace train {

struct Shape {
  std::uint32_t context = 16;    // bytes seen
  std::uint32_t embedding = 32;  // numbers a byte
  std::uint32_t hidden = 512;    // width of each hidden layer
  std::uint32_t n_hidden = 2;
};

inline constexpr std::uint32_t kBytes = 256;

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t count = 0;
};

// A hidden layer or the output: weights[n_in][n_out] at w, then bias[n_out] at b.
struct Dense {
  std::uint32_t n_in = 0;
  std::uint32_t n_out = 0;
  std::uint64_t w = 0;
  std::uint64_t b = 0;
};

class Model {
 public:
  // batch: the most windows of one pass.
  Model(const Shape& shape, std::uint32_t batch);

  std::uint64_t n_parameters() const { return n_parameters_; }
  const Shape& shape() const { return shape_; }
  std::uint32_t batch() const { return batch_; }
  // Ranges of the parameters, in the order in which backward() completes them.
  const std::vector<Range>& buckets() const { return buckets_; }

  // The same start for everybody who gives the same seed.
  void initialise(std::span<float> parameters, std::uint64_t seed) const;

  // windows[n][context + 1], n <= batch: the bytes seen and the one to predict. Returns the loss:
  // the sum of -ln p(next byte) over the n windows.
  double forward(std::span<const float> parameters, std::span<const std::uint8_t> windows);
  // After forward() with n == batch: writes the gradient of its loss; ready(i) is called when
  // buckets()[i] of it is complete.
  void backward(std::span<const float> parameters, std::span<float> gradient,
                const std::function<void(std::size_t)>& ready);
  // Probabilities of the last forward(), [n][256].
  std::span<const float> probabilities() const { return logits_; }

 private:
  std::uint8_t next_byte(std::uint32_t i) const;
  void embed(std::span<const float> parameters);
  double softmax();
  void backward_embedding(std::span<float> gradient);

  Shape shape_;
  std::uint32_t batch_;
  std::uint32_t n_ = 0;        // windows of the last forward()
  std::vector<Dense> layers_;  // the hidden ones, then the output
  std::vector<Range> buckets_;
  std::uint64_t n_parameters_ = 0;
  std::vector<std::uint8_t> windows_;
  std::vector<std::vector<float>> activations_;  // [l] is the input of layers_[l]
  std::vector<std::vector<float>> deltas_;       // gradients of the loss by activations_[l]
  std::vector<float> logits_;                    // then probabilities, then their gradient
};

}  // namespace train
