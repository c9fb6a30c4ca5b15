// SPDX-License-Identifier: MIT OR Apache-2.0
// Exact sums, block by block, cheapest way first. All ways give the same bits, so which one ran
// does not matter:
//  1. Sum in f64. If the processor says that no addition rounded, one rounding at the end is all.
//  2. Otherwise bound the rounding error of each f64 sum; where both ends of the error interval
//     round to the same result, that is the result.
//  3. The few elements left (ties, cancellation) are gathered into dense columns: a compensated
//     sum with the same interval test, then a sum by levels that is exact for any spread.
// f64 results start with compensated sums, since f64 has no wider type to be summed in.
#include "kernels/exact.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/exact.cc"
// After HWY_TARGET_INCLUDE.
#include <hwy/foreach_target.h>

#include "kernels/exact-inl.h"
#include "kernels/float_env.h"
#include "kernels/ways-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

// Two contributions need one addition, which rounds once by itself. (f16 and bf16 are added in
// f32, whose 24 bits are enough for the second rounding to be harmless: 24 >= 2 * 11 + 2.)
struct CanonicalSum {
  template <class D, class V>
  static HWY_INLINE V lift(D, V v) {
    return v;
  }
  template <class D, class V>
  static HWY_INLINE V combine(D d, V a, V b) {
    const V sum = hn::Add(a, b);
    return hn::IfThenElse(hn::Eq(sum, sum), sum,
                          hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN()));
  }
};

template <class Leaf, class Out>
class ExactSum {
  using In = typename Leaf::Stored;
  using Stored = typename Out::Stored;
  static constexpr std::size_t kBlock = 1024;
  static constexpr bool kWide = Out::kShape.precision == 53;

 public:
  ExactSum(const Ways& ways, FloatEnv& env) : ways_(ways), env_(env) {}

  void run() {
    for (begin_ = 0; begin_ < ways_.count; begin_ += kBlock) {
      n_ = std::min(kBlock, ways_.count - begin_);
      n_open_ = 0;
      if constexpr (kWide) {
        sum_compensated();
      } else if (sum_certified()) {
        round_sums();
      } else {
        bound();
        round_checked();
      }
      for (std::size_t i = 0; i < n_open_; i += hn::Lanes(kD)) resolve(i);
      write();
    }
    if (ways_.stores == Stores::streaming) hwy::FlushStream();
  }

 private:
  static constexpr D64 kD{};

  const In* src(std::size_t p) const { return static_cast<const In*>(ways_.srcs[p]) + begin_; }
  std::size_t n_ways() const { return ways_.srcs.size(); }

  // sums_ = plain f64 sums; true if all of them are known to be exact.
  bool sum_certified() {
    const bool always = n_ways() <= Leaf::kExactWays;
    if (!always) env_.clear_inexact();
    const std::size_t n = hn::Lanes(kD);
    std::size_t i = 0;
    for (; i + 4 * n <= n_; i += 4 * n) sum_four(i);
    for (; i < n_; i += n) {
      const std::size_t m = std::min(n, n_ - i);
      V64 a = load_leaf<Leaf>(src(0) + i, m);
      for (std::size_t p = 1; p < n_ways(); ++p) a = hn::Add(a, load_leaf<Leaf>(src(p) + i, m));
      hn::Store(a, kD, sums_ + i);
    }
    return always || (FloatEnv::reports_inexact() && !env_.inexact(sums_));
  }

  HWY_INLINE void sum_four(std::size_t i) {
    const std::size_t n = hn::Lanes(kD);
    const In* s = src(0) + i;
    V64 a0 = Leaf::load(s), a1 = Leaf::load(s + n);
    V64 a2 = Leaf::load(s + 2 * n), a3 = Leaf::load(s + 3 * n);
    for (std::size_t p = 1; p < n_ways(); ++p) {
      s = src(p) + i;
      a0 = hn::Add(a0, Leaf::load(s));
      a1 = hn::Add(a1, Leaf::load(s + n));
      a2 = hn::Add(a2, Leaf::load(s + 2 * n));
      a3 = hn::Add(a3, Leaf::load(s + 3 * n));
    }
    hn::Store(a0, kD, sums_ + i);
    hn::Store(a1, kD, sums_ + i + n);
    hn::Store(a2, kD, sums_ + i + 2 * n);
    hn::Store(a3, kD, sums_ + i + 3 * n);
  }

  void round_sums() {
    for (std::size_t i = 0; i < n_; i += hn::Lanes(kD))
      Out::store(Out::round(canonical_nan(hn::Load(kD, sums_ + i))), results_ + i);
  }

  // bounds_ = a bound of the error of each sum. Partial sum k is at most k max|x|, so n - 1
  // additions err by at most 2^-53 (n^2 + n) / 2 max|x|; the rest of 2 n^2 pays for the rounding
  // of the interval's ends.
  void bound() {
    const auto ways = static_cast<double>(n_ways());
    const V64 factor = hn::Set(kD, 0x1p-52 * ways * ways);
    for (std::size_t i = 0; i < n_; i += hn::Lanes(kD)) {
      const std::size_t m = std::min(hn::Lanes(kD), n_ - i);
      V64 most = hn::Abs(load_leaf<Leaf>(src(0) + i, m));
      for (std::size_t p = 1; p < n_ways(); ++p)
        most = hn::Max(most, hn::Abs(load_leaf<Leaf>(src(p) + i, m)));
      hn::Store(hn::Mul(most, factor), kD, bounds_ + i);
    }
  }

  void round_checked() {
    for (std::size_t i = 0; i < n_; i += hn::Lanes(kD)) {
      const V64 sum = canonical_nan(hn::Load(kD, sums_ + i));
      const V64 slack = hn::Load(kD, bounds_ + i);
      const auto from = Out::round(hn::Sub(sum, slack)), to = Out::round(hn::Add(sum, slack));
      Out::store(Out::round(sum), results_ + i);
      const hn::DFromV<decltype(to)> d_out;
      // Infinities and NaNs of leaves that cannot overflow in f64 are the result.
      std::uint64_t finite = ~std::uint64_t{0};
      if constexpr (!Leaf::kCanOverflow) finite = mask_bits(kD, hn::IsFinite(sum));
      leave_open(i, mask_bits(d_out, hn::Not(hn::Eq(from, to))) & finite);
    }
  }

  template <class D, class M>
  static HWY_INLINE std::uint64_t mask_bits(D d, M mask) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, mask, bytes);
    std::uint64_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    return bits & ((std::uint64_t{1} << hn::Lanes(d)) - 1);
  }

  HWY_INLINE void leave_open(std::size_t i, std::uint64_t lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
      const std::size_t lane = static_cast<std::size_t>(std::countr_zero(lanes));
      if (i + lane < n_) open_[n_open_++] = static_cast<std::uint16_t>(i + lane);
    }
  }

  // f64 results: two-term sums. The error of the second term is known up to its last bit, so
  // h + (low -+ slack) brackets the sum; slack is 0 where low is exact.
  void sum_compensated() {
    for (std::size_t i = 0; i < n_; i += hn::Lanes(kD)) {
      const std::size_t m = std::min(hn::Lanes(kD), n_ - i);
      V64 high = load_leaf<Leaf>(src(0) + i, m), low = hn::Zero(kD), lost = hn::Zero(kD);
      for (std::size_t p = 1; p < n_ways(); ++p) {
        const TwoSum first(high, load_leaf<Leaf>(src(p) + i, m));
        const TwoSum second(low, first.error);
        high = first.s;
        low = second.s;
        lost = hn::Add(lost, hn::Abs(second.error));
      }
      const V64 ulps = hn::Mul(hn::Abs(low), hn::Set(kD, 0x1p-52));
      const V64 slack =
          hn::IfThenZeroElse(hn::Eq(lost, hn::Zero(kD)), hn::Add(hn::Add(lost, lost), ulps));
      const V64 from = hn::Add(high, hn::Sub(low, slack)), to = hn::Add(high, hn::Add(low, slack));
      const V64 sum = hn::IfThenElse(hn::Eq(low, hn::Zero(kD)), high, to);
      Out::store(sum, results_ + i);
      leave_open(i, mask_bits(kD, hn::Not(hn::Eq(from, to))));
    }
  }

  // Elements open_[at...], as many as there are lanes.
  void resolve(std::size_t at) {
    const std::size_t m = std::min(hn::Lanes(kD), n_open_ - at);
    const std::uint16_t* elements = open_ + at;
    Stored out[kMaxLanes];
    if (n_ways() > Columns<Out>::kMaxRows) return resolve_singly(elements, m);
    HWY_ALIGN double rows[Columns<Out>::kMaxRows * kMaxLanes];
    for (std::size_t p = 0; p < n_ways(); ++p) {
      In gathered[kMaxLanes] = {};
      for (std::size_t j = 0; j < m; ++j) gathered[j] = src(p)[elements[j]];
      hn::Store(Leaf::load(gathered), kD, rows + p * kMaxLanes);
    }
    Columns<Out>(rows, n_ways()).sum(out);
    for (std::size_t j = 0; j < m; ++j) results_[elements[j]] = out[j];
  }

  // More contributions than columns hold.
  void resolve_singly(const std::uint16_t* elements, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
      Superaccumulator sum;
      double special = 0;
      bool minus_zero = true;
      for (std::size_t p = 0; p < n_ways(); ++p) {
        const double x = hn::GetLane(load_leaf<Leaf>(src(p) + elements[j], 1));
        if (std::isfinite(x)) {
          sum.add(x);
        } else {
          special += x;
        }
        minus_zero = minus_zero && std::bit_cast<std::uint64_t>(x) == std::uint64_t{1} << 63;
      }
      double rounded = special == 0 ? sum.round(Out::kShape) : special;
      if (minus_zero) rounded = -0.0;
      Stored out[kMaxLanes];
      Out::store(Out::round(canonical_nan(hn::Set(kD, rounded))), out);
      results_[elements[j]] = out[0];
    }
  }

  // Results leave only now, so an output may be an input.
  void write() const {
    const hn::ScalableTag<std::uint8_t> d;
    const std::size_t n_bytes = n_ * sizeof(Stored), step = hn::Lanes(d);
    const auto* in = reinterpret_cast<const std::uint8_t*>(results_);
    for (void* dst : ways_.dsts) {
      auto* out = static_cast<std::uint8_t*>(dst) + begin_ * sizeof(Stored);
      const bool aligned = reinterpret_cast<std::uintptr_t>(out) % step == 0;
      std::size_t i = 0;
      if (ways_.stores == Stores::streaming && aligned && step > 1)
        for (; i + step <= n_bytes; i += step) hn::Stream(hn::Load(d, in + i), d, out + i);
      std::memcpy(out + i, in + i, n_bytes - i);
    }
  }

  const Ways& ways_;
  FloatEnv& env_;
  std::size_t begin_ = 0, n_ = 0, n_open_ = 0;
  HWY_ALIGN double sums_[kBlock];
  HWY_ALIGN double bounds_[kBlock];
  HWY_ALIGN Stored results_[kBlock];
  std::uint16_t open_[kBlock];
};

template <class Format, class Leaf, class Out>
void exact_same(const Ways& ways, FloatEnv& env) {
  if (ways.srcs.size() == 2) return WaysLoop<Format, CanonicalSum>(ways).run();
  ExactSum<Leaf, Out>(ways, env).run();
}

template <class Out>
void exact_terms(const Ways& ways, FloatEnv& env) {
  ExactSum<F64Leaf, Out>(ways, env).run();
}

void exact_ways(Dtype leaf, Dtype out, const Ways& ways) {
  FloatEnv env;
  switch (leaf) {
    case Dtype::f16:
      return exact_same<F16, F16Leaf, F16Out>(ways, env);
    case Dtype::bf16:
      return exact_same<BF16, BF16Leaf, BF16Out>(ways, env);
    case Dtype::f32:
      return exact_same<Plain<float>, F32Leaf, F32Out>(ways, env);
    default:
      break;
  }
  switch (out) {
    case Dtype::f16:
      return exact_terms<F16Out>(ways, env);
    case Dtype::bf16:
      return exact_terms<BF16Out>(ways, env);
    case Dtype::f32:
      return exact_terms<F32Out>(ways, env);
    default:
      return exact_same<Plain<double>, F64Leaf, F64Out>(ways, env);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(exact_ways);

void exact_sum_n(Dtype leaf, Dtype out, std::span<void* const> dsts,
                 std::span<const void* const> srcs, std::size_t count, Stores stores) {
  HWY_DYNAMIC_DISPATCH(exact_ways)(leaf, out, {dsts, srcs, count, stores});
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
