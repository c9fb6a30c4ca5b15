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
  static constexpr std::size_t kMaxRows = Columns<Out>::kMaxRows;
  static constexpr int kPatience = 16;
  static constexpr bool kWide = Out::kShape.precision == 53;

 public:
  ExactSum(const Ways& ways, FloatEnv& env) : ways_(ways), env_(env) {}

  void run() {
    for (begin_ = 0; begin_ < ways_.count; begin_ += kBlock) {
      n_ = std::min(kBlock, ways_.count - begin_);
      results_ = writes_directly() ? dst(0) + begin_ : buffer_;
      sum_block();
      write();
    }
    results_ = nullptr;
    begin_ = ways_.count;
    settle_columns();
    if (ways_.stores == Stores::streaming) hwy::FlushStream();
  }

 private:
  static constexpr D64 kD{};

  void sum_block() {
    if constexpr (kWide) {
      sum_compensated();
    } else if (patience_ > 0) {
      --patience_;
      sum_bounded();
    } else if (!sum_certified()) {
      patience_ = kPatience;
      sum_bounded();
    }
  }

  const In* src(std::size_t p) const { return static_cast<const In*>(ways_.srcs[p]) + begin_; }
  std::size_t n_ways() const { return ways_.srcs.size(); }
  Stored* dst(std::size_t d) const { return static_cast<Stored*>(ways_.dsts[d]); }

  // Whether results may go to the first output as they come: its old contents are no input that
  // may be read again, and every vector fits.
  bool writes_directly() const {
    if (n_ != kBlock || ways_.stores == Stores::streaming) return false;
    for (const void* src : ways_.srcs)
      if (src == ways_.dsts[0]) return false;
    return true;
  }

  // Plain f64 sums, rounded; true if all of them are known to be exact.
  bool sum_certified() {
    const bool always = n_ways() <= Leaf::kExactWays;
    if (!always) env_.clear_inexact();
    const std::size_t n = hn::Lanes(kD);
    std::size_t i = 0;
    for (; i + 4 * n <= n_; i += 4 * n) sum_four(i);
    for (; i < n_; i += n) {
      const std::size_t m = std::min(n, n_ - i);
      V64 a = load_leaf<Leaf>(src(0) + i, m);
      for (std::size_t p = 1; p < n_ways(); ++p) a = plus(a, load_leaf<Leaf>(src(p) + i, m));
      put_exact(a, i);
    }
    return always || (FloatEnv::reports_inexact() && !env_.inexact(results_));
  }

  // a + x, in the multiplier's pipes: conversions to f64 keep the adder busy.
  static HWY_INLINE V64 plus(V64 a, V64 x) { return hn::MulAdd(x, hn::Set(kD, 1.0), a); }

  HWY_INLINE void put_exact(V64 sum, std::size_t i) {
    Out::store(Out::round_quietly(canonical_nan(sum)), results_ + i);
  }

  HWY_INLINE void sum_four(std::size_t i) {
    const std::size_t n = hn::Lanes(kD);
    const In* s = src(0) + i;
    V64 a0 = Leaf::load(s), a1 = Leaf::load(s + n);
    V64 a2 = Leaf::load(s + 2 * n), a3 = Leaf::load(s + 3 * n);
    for (std::size_t p = 1; p < n_ways(); ++p) {
      s = src(p) + i;
      a0 = plus(a0, Leaf::load(s));
      a1 = plus(a1, Leaf::load(s + n));
      a2 = plus(a2, Leaf::load(s + 2 * n));
      a3 = plus(a3, Leaf::load(s + 3 * n));
    }
    put_exact(a0, i);
    put_exact(a1, i + n);
    put_exact(a2, i + 2 * n);
    put_exact(a3, i + 3 * n);
  }

  // Sums with a bound of their errors. Partial sum k is at most k max|x|, so n - 1 additions err
  // by at most 2^-53 (n^2 + n) / 2 max|x|; the rest of 2 n^2 pays for the rounding of the ends.
  void sum_bounded() {
    const auto ways = static_cast<double>(n_ways());
    const V64 factor = hn::Set(kD, 0x1p-52 * ways * ways);
    const std::size_t n = hn::Lanes(kD);
    std::size_t i = 0;
    for (; i + 2 * n <= n_; i += 2 * n) {
      auto x0 = Leaf::load_narrow(src(0) + i), x1 = Leaf::load_narrow(src(0) + i + n);
      auto most0 = Leaf::magnitude(x0), most1 = Leaf::magnitude(x1);
      V64 a0 = Leaf::widen(x0), a1 = Leaf::widen(x1);
      for (std::size_t p = 1; p < n_ways(); ++p) {
        x0 = Leaf::load_narrow(src(p) + i);
        x1 = Leaf::load_narrow(src(p) + i + n);
        most0 = hn::Max(most0, Leaf::magnitude(x0));
        most1 = hn::Max(most1, Leaf::magnitude(x1));
        a0 = plus(a0, Leaf::widen(x0));
        a1 = plus(a1, Leaf::widen(x1));
      }
      put_checked(a0, Leaf::widen_magnitude(most0), factor, i);
      put_checked(a1, Leaf::widen_magnitude(most1), factor, i + n);
    }
    for (; i < n_; i += n) {
      const std::size_t m = std::min(n, n_ - i);
      V64 a = load_leaf<Leaf>(src(0) + i, m), most = hn::Abs(a);
      for (std::size_t p = 1; p < n_ways(); ++p) {
        const V64 x = load_leaf<Leaf>(src(p) + i, m);
        a = hn::Add(a, x);
        most = hn::Max(most, hn::Abs(x));
      }
      put_checked(a, most, factor, i);
    }
  }

  HWY_INLINE void put_checked(V64 sum, V64 most, V64 factor, std::size_t i) {
    V64 low = hn::NegMulAdd(most, factor, sum), high = hn::MulAdd(most, factor, sum);
    if constexpr (sizeof(Stored) == 2) {  // compared as bits, so a NaN would equal itself
      low = canonical_nan(low);
      high = canonical_nan(high);
    }
    const auto from = Out::round(low), to = Out::round(high);
    Out::store(to, results_ + i);
    const std::uint64_t lanes = mask_bits(hn::DFromV<decltype(to)>(), hn::Not(hn::Eq(from, to)));
    if (HWY_UNLIKELY(lanes != 0)) put_aside(i, settle_special(sum, i, lanes));
  }

  // Infinities and NaNs of leaves that cannot overflow in f64 are the result.
  HWY_NOINLINE std::uint64_t settle_special(V64 sum, std::size_t i, std::uint64_t lanes) {
    if (Leaf::kCanOverflow) return lanes;
    const std::uint64_t finite = mask_bits(kD, hn::IsFinite(sum));
    Stored out[kMaxLanes];
    Out::store(Out::round(canonical_nan(sum)), out);
    for (std::uint64_t left = lanes & ~finite; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      results_[i + static_cast<std::size_t>(lane)] = out[lane];
    }
    return lanes & finite;
  }

  template <class D, class M>
  static HWY_INLINE std::uint64_t mask_bits(D d, M mask) {
    std::uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, mask, bytes);
    std::uint64_t bits;
    std::memcpy(&bits, bytes, sizeof bits);
    return bits & ((std::uint64_t{1} << hn::Lanes(d)) - 1);
  }

  // Puts elements aside to be summed by columns, several at a time and not always before the
  // block's results leave.
  HWY_NOINLINE void put_aside(std::size_t i, std::uint64_t lanes) {
    for (; lanes != 0; lanes &= lanes - 1) {
      const std::size_t at = i + static_cast<std::size_t>(std::countr_zero(lanes));
      if (at >= n_) return;
      if (n_ways() > kMaxRows) {
        results_[at] = sum_singly(at);
        continue;
      }
      for (std::size_t p = 0; p < n_ways(); ++p) aside_[p * kMaxLanes + n_aside_] = src(p)[at];
      elements_[n_aside_++] = begin_ + at;
      if (n_aside_ == hn::Lanes(kD)) settle_columns();
    }
  }

  void settle_columns() {
    if (n_aside_ == 0) return;
    HWY_ALIGN double rows[kMaxRows * kMaxLanes];
    for (std::size_t p = 0; p < n_ways(); ++p) {
      In* row = aside_ + p * kMaxLanes;
      std::fill(row + n_aside_, row + kMaxLanes, In{});
      hn::Store(Leaf::load(row), kD, rows + p * kMaxLanes);
    }
    Stored out[kMaxLanes];
    Columns<Out>(rows, n_ways()).sum(out);
    for (std::size_t j = 0; j < n_aside_; ++j) {
      if (elements_[j] >= begin_) {
        results_[elements_[j] - begin_] = out[j];
      } else {
        for (std::size_t d = 0; d < ways_.dsts.size(); ++d) dst(d)[elements_[j]] = out[j];
      }
    }
    n_aside_ = 0;
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
      const std::uint64_t lanes = mask_bits(kD, hn::Not(hn::Eq(from, to)));
      if (HWY_UNLIKELY(lanes != 0)) put_aside(i, lanes);
    }
  }

  // More contributions than columns hold.
  Stored sum_singly(std::size_t at) const {
    Superaccumulator sum;
    double special = 0;
    bool minus_zero = true;
    for (std::size_t p = 0; p < n_ways(); ++p) {
      const double x = hn::GetLane(load_leaf<Leaf>(src(p) + at, 1));
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
    return out[0];
  }

  // Results leave a block at a time, so that an output may be an input.
  void write() const {
    const hn::ScalableTag<std::uint8_t> d;
    const std::size_t n_bytes = n_ * sizeof(Stored), step = hn::Lanes(d);
    const auto* in = reinterpret_cast<const std::uint8_t*>(results_);
    for (std::size_t k = results_ == buffer_ ? 0 : 1; k < ways_.dsts.size(); ++k) {
      auto* out = reinterpret_cast<std::uint8_t*>(dst(k) + begin_);
      const bool aligned = reinterpret_cast<std::uintptr_t>(out) % step == 0;
      std::size_t i = 0;
      if (ways_.stores == Stores::streaming && aligned && step > 1)
        for (; i + step <= n_bytes; i += step) hn::Stream(hn::Load(d, in + i), d, out + i);
      std::memcpy(out + i, in + i, n_bytes - i);
    }
  }

  const Ways& ways_;
  FloatEnv& env_;
  std::size_t begin_ = 0, n_ = 0;  // the block
  int patience_ = 0;           // blocks not to try sum_certified() on, after one where it failed
  Stored* results_ = nullptr;  // of the block: buffer_ or the first output
  HWY_ALIGN Stored buffer_[kBlock];
  std::size_t n_aside_ = 0;
  std::size_t elements_[kMaxLanes];
  In aside_[kMaxRows * kMaxLanes];  // contributions of the elements, laid out as rows
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
