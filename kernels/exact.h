// SPDX-License-Identifier: MIT OR Apache-2.0
// Exact sums of floats: the mathematical sum of all contributions, rounded once (to nearest, ties
// to even). The definition contains no order, number of ranks or chunk size, so the bits do not
// depend on them either.
//
// A NaN, or infinities of both signs, give the canonical quiet NaN; otherwise an infinity wins.
// A zero sum is -0 only if every contribution is -0. Sums that leave the range on the way and come
// back do not overflow. The caller's rounding mode and flush-to-zero settings do not matter.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "kernels/copy.h"

namespace rlx::kernels {

// Exact mode exists for sums and averages; every operation on integers, and min and max on floats,
// are independent of order already.
constexpr bool exact_applies(Op op, Dtype dtype) {
  return is_float(dtype) && (op == Op::sum || op == Op::avg);
}

// Each dst[i] = exact sum of srcs[0][i], srcs[1][i], ... of type `leaf`, rounded once to type
// `out`. `out` is `leaf`, or `leaf` is f64 (the terms of partial sums, below). An output may be one
// of the inputs if the types are equal, or overlap none. Requires at least one input.
void exact_sum_n(Dtype leaf, Dtype out, std::span<void* const> dsts,
                 std::span<const void* const> srcs, std::size_t count,
                 Stores stores = Stores::cached);

inline void exact_sum_n(Dtype dtype, std::span<void* const> dsts, std::span<const void* const> srcs,
                        std::size_t count, Stores stores = Stores::cached) {
  exact_sum_n(dtype, dtype, dsts, srcs, count, stores);
}

// An exact partial sum of any number of leaves, kept unrounded: k leaves added here and rounded
// give the same bits as k ranks that contribute one leaf each.
//
// The sum of an element is that of its terms, each an f64. Most data needs one term; more appear
// as the spread of the contributions requires. So the terms are what ranks exchange: partial sums
// of several ranks are combined by exact_sum_n(f64, out) over all terms of all ranks, in any
// grouping, or by add_terms().
class ExactAccumulator {
 public:
  ExactAccumulator(Dtype leaf, std::size_t count);

  void add(const void* leaf);                            // `count` elements of the leaf type
  void add_terms(std::span<const double* const> terms);  // a partial sum of `count` elements
  void round(Dtype out, void* dst) const;                // writes `count` elements
  void clear();                                          // back to no contributions

  std::size_t count() const { return count_; }
  std::size_t n_terms() const { return terms_.size(); }  // 0 before the first contribution
  const double* term(std::size_t k) const { return terms_[k].get(); }

  // The wire form of elements [begin, begin + n): n_terms runs of n doubles, term by term.
  // n_terms may exceed n_terms() (ranks first agree on the maximum); the rest is -0, which adds
  // nothing, not even to -0.
  void copy_terms(std::size_t begin, std::size_t n, std::size_t n_terms, double* out) const;

 private:
  void add_leaf(Dtype dtype, const void* data);
  double* append_term();

  Dtype leaf_;
  std::size_t count_;
  std::vector<std::unique_ptr<double[]>> terms_;
};

}  // namespace rlx::kernels
