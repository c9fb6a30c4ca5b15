// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trainer.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "checkpoint.h"
#include "failure.h"

namespace train {
namespace {

std::uint32_t leaf_windows(const State& state, const Leaves& leaves) {
  return (state.batch + leaves.total - 1) / leaves.total;
}

}  // namespace

Trainer::Trainer(const rlx::World& world, const Text& text, const Leaves& leaves, State state,
                 bool exact)
    : world_(world),
      text_(text),
      leaves_(leaves),
      state_(std::move(state)),
      model_(state_.shape, leaf_windows(state_, leaves)),
      gradient_(model_.n_parameters()),
      losses_(leaves.total + 1),
      windows_(std::size_t{model_.batch()} * (state_.shape.context + 1)) {
  if (state_.parameters.empty()) {
    state_.parameters.resize(model_.n_parameters());
    state_.mean.resize(model_.n_parameters());
    state_.square.resize(model_.n_parameters());
    model_.initialise(state_.parameters, state_.seed);
  }
  if (!exact) {
    requests_.resize(model_.buckets().size());
    return;
  }
  for (const Range& bucket : model_.buckets()) exact_sums_.emplace_back(bucket.count);
}

void Trainer::draw(std::uint32_t leaf) {
  const std::size_t n = state_.shape.context + 1;
  const auto bytes = text_.leaf(leaf);
  for (std::uint32_t i = 0; i < model_.batch(); ++i) {
    draw_window(bytes, state_.step * model_.batch() + i, state_.seed,
                std::span(windows_).subspan(i * n, n));
  }
}

void Trainer::bucket_ready(std::size_t bucket) {
  const Range range = model_.buckets()[bucket];
  const auto gradient = std::span(gradient_).subspan(range.begin, range.count);
  if (!exact_sums_.empty()) {
    exact_sums_[bucket].add(gradient);
    return;
  }
  requests_[bucket] = world_.iall_reduce(gradient);
  world_.progress();
}

void Trainer::forward_and_backward(std::uint32_t leaf) {
  draw(leaf);
  losses_[leaf] = model_.forward(state_.parameters, windows_);
  // Losses of the other ranks' leaves are zero here, so that the sum over ranks is exact. They
  // leave with the last leaf, beside the gradient of the output layer.
  if (leaf + 1 == leaves_.end) losses_request_ = world_.iall_reduce(losses_);
  model_.backward(state_.parameters, gradient_, [&](std::size_t bucket) { bucket_ready(bucket); });
}

void Trainer::update(double lr) {
  const float scale =
      1.0F / (static_cast<float>(model_.batch()) * static_cast<float>(leaves_.total));
  for (std::size_t b = 0; b < model_.buckets().size(); ++b) {
    const Range range = model_.buckets()[b];
    if (exact_sums_.empty()) {
      requests_[b].wait();
    } else {
      exact_sums_[b].all_reduce(std::span(gradient_).subspan(range.begin, range.count), world_);
    }
    adam(state_, range, gradient_, scale, lr);
    world_.progress();
  }
}

Trainer::Outcome Trainer::step(double lr, double progress) {
  std::fill(losses_.begin(), losses_.end(), 0.0);
  if (world_.rank() == 0) losses_.back() = progress;
  if (leaves_.begin == leaves_.end) losses_request_ = world_.iall_reduce(losses_);
  for (std::uint32_t leaf = leaves_.begin; leaf < leaves_.end; ++leaf) forward_and_backward(leaf);
  losses_request_.wait();
  update(lr);
  ++state_.step;
  const double loss = std::accumulate(losses_.begin(), losses_.end() - 1, 0.0);
  const double n = static_cast<double>(model_.batch()) * leaves_.total;
  return {loss / n / std::numbers::ln2, losses_.back()};
}

double Trainer::evaluate() {
  const std::uint64_t context = state_.shape.context;
  const auto held_out = text_.held_out();
  const std::uint64_t n_windows = held_out.size() - context;
  const std::uint64_t n_passes = (n_windows + model_.batch() - 1) / model_.batch();
  std::vector<double> losses(n_passes);
  const auto n_ranks = static_cast<std::uint64_t>(world_.size());
  for (auto pass = static_cast<std::uint64_t>(world_.rank()); pass < n_passes; pass += n_ranks) {
    const std::uint64_t first = pass * model_.batch();
    const std::uint64_t n = std::min<std::uint64_t>(model_.batch(), n_windows - first);
    for (std::uint64_t i = 0; i < n; ++i) {
      std::copy_n(held_out.begin() + static_cast<std::ptrdiff_t>(first + i), context + 1,
                  windows_.begin() + static_cast<std::ptrdiff_t>(i * (context + 1)));
    }
    losses[pass] = model_.forward(state_.parameters, std::span(windows_).first(n * (context + 1)));
  }
  world_.all_reduce(losses);
  return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(n_windows) /
         std::numbers::ln2;
}

std::uint64_t Trainer::weights_hash() const {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(state_.parameters.data());
  const std::uint64_t mine = hash({bytes, state_.parameters.size() * sizeof(state_.parameters[0])});
  const std::uint64_t least = world_.all_reduce(mine, rlx::Op::min);
  const std::uint64_t most = world_.all_reduce(mine, rlx::Op::max);
  if (least != most) throw Failure{kExitRuntime, "ranks ended with different weights"};
  return mine;
}

}  // namespace train
