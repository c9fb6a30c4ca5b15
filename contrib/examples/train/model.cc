// SPDX-License-Identifier: MIT OR Apache-2.0
#include "model.h"

#include <dnnl.h>

#include <algorithm>
#include <cmath>

#include "random.h"

namespace train {
namespace {

// c[m][n] = a[m][k] b[k][n] + keep * c; `ta`, `tb` say that a or b is stored transposed.
void multiply(bool ta, bool tb, std::uint32_t m, std::uint32_t n, std::uint32_t k, const float* a,
              const float* b, float keep, float* c) {
  dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1.0F, a, ta ? m : k, b, tb ? k : n, keep, c,
             n);
}

void set_rows(float* out, std::uint32_t n_rows, const float* row, std::uint32_t n) {
  for (std::uint32_t i = 0; i < n_rows; ++i) std::copy_n(row, n, out + std::size_t{i} * n);
}

void rectify(std::vector<float>& x) {
  for (float& v : x) v = v > 0 ? v : 0;
}

void sum_rows(const float* x, std::uint32_t n_rows, std::uint32_t n, float* out) {
  std::fill_n(out, n, 0.0F);
  for (std::uint32_t i = 0; i < n_rows; ++i) {
    for (std::uint32_t j = 0; j < n; ++j) out[j] += x[std::size_t{i} * n + j];
  }
}

}  // namespace

Model::Model(const Shape& shape, std::uint32_t batch) : shape_(shape), batch_(batch) {
  std::uint64_t at = std::uint64_t{kBytes} * shape.embedding;
  buckets_.push_back({0, at});
  std::uint32_t n_in = shape.context * shape.embedding;
  for (std::uint32_t l = 0; l <= shape.n_hidden; ++l) {
    const std::uint32_t n_out = l < shape.n_hidden ? shape.hidden : kBytes;
    const std::uint64_t n_weights = std::uint64_t{n_in} * n_out;
    layers_.push_back({n_in, n_out, at, at + n_weights});
    buckets_.push_back({at, n_weights + n_out});
    activations_.emplace_back(std::size_t{batch} * n_in);
    deltas_.emplace_back(std::size_t{batch} * n_in);
    at += n_weights + n_out;
    n_in = n_out;
  }
  std::reverse(buckets_.begin(), buckets_.end());
  n_parameters_ = at;
  logits_.resize(std::size_t{batch} * kBytes);
}

void Model::initialise(std::span<float> parameters, std::uint64_t seed) const {
  Random random(seed);
  const auto fill = [&](std::uint64_t begin, std::uint64_t count, double deviation) {
    for (std::uint64_t i = 0; i < count; ++i) {
      parameters[begin + i] = static_cast<float>(deviation * random.normal());
    }
  };
  fill(0, std::uint64_t{kBytes} * shape_.embedding, 0.5);
  for (const Dense& layer : layers_) {
    const bool is_output = &layer == &layers_.back();
    fill(layer.w, layer.b - layer.w, std::sqrt((is_output ? 0.1 : 2.0) / layer.n_in));
    std::fill_n(parameters.begin() + layer.b, layer.n_out, 0.0F);
  }
}

std::uint8_t Model::next_byte(std::uint32_t i) const {
  return windows_[std::size_t{i} * (shape_.context + 1) + shape_.context];
}

void Model::embed(std::span<const float> parameters) {
  const std::uint32_t d = shape_.embedding;
  float* out = activations_[0].data();
  for (std::uint32_t i = 0; i < n_; ++i) {
    const std::uint8_t* window = &windows_[std::size_t{i} * (shape_.context + 1)];
    for (std::uint32_t c = 0; c < shape_.context; ++c, out += d) {
      std::copy_n(&parameters[std::size_t{window[c]} * d], d, out);
    }
  }
}

double Model::forward(std::span<const float> parameters, std::span<const std::uint8_t> windows) {
  windows_.assign(windows.begin(), windows.end());
  n_ = static_cast<std::uint32_t>(windows.size() / (shape_.context + 1));
  embed(parameters);
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    const Dense& layer = layers_[l];
    const bool is_output = l + 1 == layers_.size();
    std::vector<float>& out = is_output ? logits_ : activations_[l + 1];
    set_rows(out.data(), n_, &parameters[layer.b], layer.n_out);
    multiply(false, false, n_, layer.n_out, layer.n_in, activations_[l].data(),
             &parameters[layer.w], 1.0F, out.data());
    if (!is_output) rectify(out);
  }
  return softmax();
}

double Model::softmax() {
  double loss = 0;
  for (std::uint32_t i = 0; i < n_; ++i) {
    float* row = &logits_[std::size_t{i} * kBytes];
    const float top = *std::max_element(row, row + kBytes);
    float total = 0;
    for (std::uint32_t j = 0; j < kBytes; ++j) total += row[j] = std::exp(row[j] - top);
    for (std::uint32_t j = 0; j < kBytes; ++j) row[j] /= total;
    loss -= std::log(std::max(row[next_byte(i)], 1e-30F));
  }
  return loss;
}

void Model::backward(std::span<const float> parameters, std::span<float> gradient,
                     const std::function<void(std::size_t)>& ready) {
  for (std::uint32_t i = 0; i < n_; ++i) logits_[std::size_t{i} * kBytes + next_byte(i)] -= 1.0F;
  std::size_t bucket = 0;
  for (std::size_t l = layers_.size(); l-- > 0;) {
    const Dense& layer = layers_[l];
    const float* delta = l + 1 == layers_.size() ? logits_.data() : deltas_[l + 1].data();
    multiply(true, false, layer.n_in, layer.n_out, n_, activations_[l].data(), delta, 0.0F,
             &gradient[layer.w]);
    sum_rows(delta, n_, layer.n_out, &gradient[layer.b]);
    ready(bucket++);
    multiply(false, true, n_, layer.n_in, layer.n_out, delta, &parameters[layer.w], 0.0F,
             deltas_[l].data());
    if (l == 0) break;  // the embedding is not rectified
    for (std::size_t i = 0; i < deltas_[l].size(); ++i) {
      if (!(activations_[l][i] > 0)) deltas_[l][i] = 0;
    }
  }
  backward_embedding(gradient);
  ready(bucket);
}

void Model::backward_embedding(std::span<float> gradient) {
  const std::uint32_t d = shape_.embedding;
  std::fill_n(gradient.begin(), std::size_t{kBytes} * d, 0.0F);
  const float* delta = deltas_[0].data();
  for (std::uint32_t i = 0; i < n_; ++i) {
    const std::uint8_t* window = &windows_[std::size_t{i} * (shape_.context + 1)];
    for (std::uint32_t c = 0; c < shape_.context; ++c, delta += d) {
      float* row = &gradient[std::size_t{window[c]} * d];
      for (std::uint32_t j = 0; j < d; ++j) row[j] += delta[j];
    }
  }
}

}  // namespace train
