// SPDX-License-Identifier: MIT OR Apache-2.0
// The C++ face over eplb.h: vectors out, exceptions instead of codes.
//
//   rlx_eplb_shape shape{1, 58, 256, 32, 288, 4, 1};
//   auto plan = rlx::eplb::plan(shape, counts);            // from scratch
//   auto options = rlx::eplb::options();
//   options.from = plan.placement.data();
//   options.max_fetches = 800;
//   auto next = rlx::eplb::plan(shape, later_counts, options);
//   auto moves = rlx::eplb::migrate(shape, plan.placement, next.placement, 44040192);
#pragma once

#include <rlx/eplb.h>

#include <rlx/types.hpp>
#include <span>
#include <vector>

namespace rlx {
inline namespace face {
namespace eplb {

struct Plan {
  std::vector<std::int32_t> placement;  // [layers][slots]
  std::vector<rlx_eplb_layer> layers;
};

struct Migration {
  std::vector<rlx_eplb_transfer> transfers;
  std::vector<std::int64_t> sent, received, link;  // bytes by rank; [nodes][nodes]
};

inline rlx_eplb_options options() { return RLX_EPLB_OPTIONS; }

namespace detail {

inline void check(rlx_error code, const rlx_eplb_error& error) {
  if (code != RLX_SUCCESS) throw Error(code, error.text);
}
inline void check_size(std::size_t seen, std::int64_t wanted, const char* what) {
  if (static_cast<std::int64_t>(seen) != wanted) {
    throw Error(RLX_ERR_INVALID, std::string(what) + ": " + std::to_string(seen) +
                                     " elements given, want " + std::to_string(wanted));
  }
}
// Elements of an array. What it refuses the C function would, but vectors are made before.
inline std::int64_t product(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (a < 0 || b < 0 || (b > 0 && a > kMost / b)) {
    throw Error(RLX_ERR_INVALID, "shape: want sizes of 0 or more and less than 2^31 of anything");
  }
  return a * b;
}
inline std::int64_t slots(const rlx_eplb_shape& s) { return product(s.layers, s.slots); }
inline std::int64_t loads(const rlx_eplb_shape& s) {
  return product(product(s.windows, s.layers), s.experts);
}

template <class T, class Function>
Plan plan(const rlx_eplb_shape& shape, std::span<const T> loads, const rlx_eplb_options& options,
          Function function) {
  check_size(loads.size(), detail::loads(shape), "loads");
  Plan out{std::vector<std::int32_t>(slots(shape)), std::vector<rlx_eplb_layer>(shape.layers)};
  rlx_eplb_error error{};
  check(function(&shape, loads.data(), &options, out.placement.data(), out.layers.data(), &error),
        error);
  return out;
}

}  // namespace detail

inline Plan plan(const rlx_eplb_shape& shape, std::span<const std::int64_t> counts,
                 const rlx_eplb_options& options = eplb::options()) {
  return detail::plan(shape, counts, options, rlx_eplb_plan);
}
inline Plan plan(const rlx_eplb_shape& shape, std::span<const double> loads,
                 const rlx_eplb_options& options = eplb::options()) {
  return detail::plan(shape, loads, options, rlx_eplb_plan_f64);
}

// Tokens of one batch of one layer by slot.
inline std::vector<std::int64_t> split(const rlx_eplb_shape& shape,
                                       std::span<const std::int64_t> counts,
                                       std::span<const std::int32_t> placement,
                                       const rlx_eplb_options& options = eplb::options()) {
  detail::check_size(counts.size(), shape.experts, "counts");
  detail::check_size(placement.size(), shape.slots, "placement");
  std::vector<std::int64_t> tokens(shape.slots);
  rlx_eplb_error error{};
  detail::check(
      rlx_eplb_split(&shape, counts.data(), placement.data(), &options, tokens.data(), &error),
      error);
  return tokens;
}

inline Migration migrate(const rlx_eplb_shape& shape, std::span<const std::int32_t> before,
                         std::span<const std::int32_t> after, std::int64_t expert_bytes,
                         const std::uint8_t* dead = nullptr) {
  detail::check_size(before.size(), detail::slots(shape), "before");
  detail::check_size(after.size(), detail::slots(shape), "after");
  const auto ranks = detail::product(1, shape.ranks);
  Migration out{std::vector<rlx_eplb_transfer>(detail::slots(shape)),
                std::vector<std::int64_t>(ranks), std::vector<std::int64_t>(ranks),
                std::vector<std::int64_t>(detail::product(shape.nodes, shape.nodes))};
  std::int64_t n = 0;  // a transfer a slot at most
  rlx_eplb_error error{};
  detail::check(rlx_eplb_migrate(&shape, before.data(), after.data(), expert_bytes, dead,
                                 out.transfers.data(), detail::slots(shape), &n, out.sent.data(),
                                 out.received.data(), out.link.data(), &error),
                error);
  out.transfers.resize(n);
  return out;
}

}  // namespace eplb
}  // namespace face
}  // namespace rlx
