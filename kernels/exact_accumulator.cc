// SPDX-License-Identifier: MIT OR Apache-2.0
#include <algorithm>
#include <cstring>

#include "kernels/exact.h"
#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exact_accumulator.cc"
// After HWY_TARGET_INCLUDE.
#include <hwy/foreach_target.h>

#include "kernels/exact-inl.h"
#include "kernels/float_env.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

// term += x, and x becomes what did not fit. The result is x == -0 where nothing is left, because
// adding -0 changes nothing.
HWY_INLINE V64 add_to_term(V64 term, V64& x) {
  const D64 d;
  const V64 nothing = hn::Set(d, -0.0);
  const TwoSum sum(term, x);
  const auto finite = hn::IsFinite(sum.s);
  V64 rest = hn::IfThenElse(hn::Eq(sum.error, hn::Zero(d)), nothing, sum.error);
  V64 kept = sum.s;
  if (!hn::AllTrue(d, finite)) {
    // Infinities and NaNs stay in the term. Finite numbers that overflow stay apart.
    const auto overflow = hn::AndNot(finite, hn::And(hn::IsFinite(term), hn::IsFinite(x)));
    rest = hn::IfThenElse(finite, rest, hn::IfThenElse(overflow, x, nothing));
    kept = hn::IfThenElse(overflow, term, kept);
  }
  x = rest;
  return kept;
}

// Adds elements [begin, count) of a leaf to the terms; stops at the first element where the terms
// do not hold the rest, which is then in `rest`, and returns its index.
template <class Leaf>
std::size_t add_leaf(std::span<double* const> terms, const void* data, std::size_t begin,
                     std::size_t count, double* rest) {
  const D64 d;
  const V64 nothing = hn::Set(d, -0.0);
  const std::size_t n = hn::Lanes(d);
  const auto* leaf = static_cast<const typename Leaf::Stored*>(data);
  for (std::size_t i = begin; i < count; i += n) {
    const std::size_t m = std::min(n, count - i);
    V64 x = load_leaf<Leaf>(leaf + i, m);
    bool done = false;
    for (std::size_t k = 0; k < terms.size() && !done; ++k) {
      const V64 kept = add_to_term(load_leaf<F64Leaf>(terms[k] + i, m), x);
      if (m == n) {
        hn::StoreU(kept, d, terms[k] + i);
      } else {
        store_some<Plain<double>>(kept, terms[k] + i, m);
      }
      done = hn::AllTrue(d, hn::Eq(x, nothing));
    }
    if (done) continue;
    hn::StoreU(x, d, rest);
    return i;
  }
  return count;
}

std::size_t add_elements(Dtype leaf, std::span<double* const> terms, const void* data,
                         std::size_t begin, std::size_t count, double* rest) {
  const FloatEnv env;
  switch (leaf) {
    case Dtype::f16:
      return add_leaf<F16Leaf>(terms, data, begin, count, rest);
    case Dtype::bf16:
      return add_leaf<BF16Leaf>(terms, data, begin, count, rest);
    case Dtype::f32:
      return add_leaf<F32Leaf>(terms, data, begin, count, rest);
    default:
      return add_leaf<F64Leaf>(terms, data, begin, count, rest);
  }
}

std::size_t lanes() { return hn::Lanes(D64()); }

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(add_elements);
HWY_EXPORT(lanes);

ExactAccumulator::ExactAccumulator(Dtype leaf, std::size_t count) : leaf_(leaf), count_(count) {}

double* ExactAccumulator::append_term() {
  terms_.emplace_back(new double[count_]);
  std::fill_n(terms_.back().get(), count_, -0.0);
  return terms_.back().get();
}

void ExactAccumulator::add(const void* leaf) { add_leaf(leaf_, leaf); }

void ExactAccumulator::add_terms(std::span<const double* const> terms) {
  for (const double* term : terms) add_leaf(Dtype::f64, term);
}

void ExactAccumulator::add_leaf(Dtype dtype, const void* data) {
  if (terms_.empty()) append_term();
  std::vector<double*> terms;
  for (const auto& term : terms_) terms.push_back(term.get());
  const std::size_t n_lanes = HWY_DYNAMIC_DISPATCH(lanes)();
  double rest[16];
  std::size_t i = 0;
  while ((i = HWY_DYNAMIC_DISPATCH(add_elements)(dtype, terms, data, i, count_, rest)) < count_) {
    const std::size_t n = std::min(n_lanes, count_ - i);
    terms.push_back(append_term());
    std::copy_n(rest, n, terms.back() + i);
    i += n;
  }
}

void ExactAccumulator::round(Dtype out, void* dst) const {
  if (terms_.empty()) {
    std::memset(dst, 0, count_ * size_of(out));
    return;
  }
  std::vector<const void*> terms;
  for (const auto& term : terms_) terms.push_back(term.get());
  void* const dsts[] = {dst};
  exact_sum_n(Dtype::f64, out, dsts, terms, count_);
}

void ExactAccumulator::clear() { terms_.clear(); }

void ExactAccumulator::copy_terms(std::size_t begin, std::size_t n, std::size_t n_terms,
                                  double* out) const {
  for (std::size_t k = 0; k < n_terms; ++k, out += n) {
    if (k < terms_.size()) {
      std::copy_n(term(k) + begin, n, out);
    } else {
      std::fill_n(out, n, -0.0);
    }
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
