// SPDX-License-Identifier: MIT OR Apache-2.0
// Arithmetic that algorithms share: cutting counts into parts, and what a reduction allows.
#pragma once

#include <algorithm>
#include <cstdint>

#include "coll/shape.h"
#include "kernels/exact.h"

namespace rlx {

struct Range {
  std::uint64_t first = 0, n = 0;  // elements
  std::uint64_t end() const { return first + n; }
};

// Part `i` of `count` elements cut into n_parts whose sizes differ by at most one `unit`; only the
// last one that is not empty may be cut inside a unit.
inline Range part(std::uint64_t count, int n_parts, int i, std::uint64_t unit = 1) {
  const auto n = static_cast<std::uint64_t>(n_parts), k = static_cast<std::uint64_t>(i);
  const std::uint64_t units = (count + unit - 1) / unit;
  const std::uint64_t first = (units / n * k + std::min(k, units % n)) * unit;
  const std::uint64_t end = first + (units / n + (k < units % n ? 1 : 0)) * unit;
  return {std::min(first, count), std::min(end, count) - std::min(first, count)};
}

// Elements of `dtype` in a cache line: parts cut by lines are written by one rank each.
inline std::uint64_t per_line(Dtype dtype) { return 64 / size_of(dtype); }

inline std::uint64_t n_cuts(std::uint64_t count, std::uint64_t piece) {
  return (count + piece - 1) / piece;
}

// The bits of the result do not depend on the order of the contributions, or may.
inline bool any_order(const Shape& shape) {
  return shape.mode == Mode::fast || !is_float(shape.dtype) || shape.op == Op::min ||
         shape.op == Op::max;
}
// Contributions must be summed by the exact kernel, all at once.
inline bool exact_sum(const Shape& shape) {
  return shape.mode == Mode::exact && kernels::exact_applies(shape.op, shape.dtype);
}

inline int log2_ceil(int n) {
  int log = 0;
  while ((1 << log) < n) ++log;
  return log;
}

}  // namespace rlx
