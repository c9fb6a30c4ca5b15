// SPDX-License-Identifier: MIT OR Apache-2.0
// Exact arithmetic on f64 lanes: error-free transformations, rounding once, and the exact sum of
// a few columns of doubles. Compiled once per instruction set (see format-inl.h).
#if defined(RLX_KERNELS_EXACT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_EXACT_INL_H_
#undef RLX_KERNELS_EXACT_INL_H_
#else
#define RLX_KERNELS_EXACT_INL_H_
#endif

#include <bit>
#include <limits>

#include "kernels/format-inl.h"
#include "kernels/superaccumulator.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

using D64 = hn::ScalableTag<double>;
using V64 = hn::VFromD<D64>;
using D64Bits = hn::RebindToUnsigned<D64>;
using D32Half = hn::Rebind<float, D64>;  // as many f32 lanes as D64 has
using D16Quarter = hn::Rebind<std::uint16_t, D64>;
inline constexpr std::size_t kMaxLanes = hn::MaxLanes(D64());

// s + error is exactly a + b (Knuth; no assumption about magnitudes).
struct TwoSum {
  V64 s, error;
  HWY_INLINE TwoSum(V64 a, V64 b) : s(hn::Add(a, b)) {
    const V64 b_part = hn::Sub(s, a);
    error = hn::Add(hn::Sub(a, hn::Sub(s, b_part)), hn::Sub(b, b_part));
  }
};

// a + b rounded to odd: if inexact, the neighbour with an odd last bit. Rounding that to any
// format at least two bits shorter gives what rounding the exact sum would have given.
HWY_INLINE V64 add_to_odd(V64 a, V64 b) {
  const D64 d;
  const D64Bits du;
  const hn::RebindToSigned<D64> di;
  const TwoSum sum(a, b);
  const auto bits = hn::BitCast(di, sum.s);
  const auto one = hn::Set(di, 1);
  const auto even = hn::Eq(hn::And(bits, one), hn::Zero(di));
  const auto exact = hn::RebindMask(di, hn::Eq(sum.error, hn::Zero(d)));
  const auto away = hn::BroadcastSignBit(hn::Xor(bits, hn::BitCast(di, sum.error)));
  const auto step = hn::IfThenElseZero(hn::AndNot(exact, even), hn::Or(away, one));
  return hn::BitCast(d, hn::BitCast(du, hn::Add(bits, step)));
}

HWY_INLINE V64 canonical_nan(V64 v) {
  return hn::IfThenElse(hn::Eq(v, v), v, hn::Set(D64(), std::numeric_limits<double>::quiet_NaN()));
}

// Leaves: how contributions become f64 lanes, without rounding. Magnitudes are compared as
// integers, in the lanes of load_narrow(): their order is the same, with NaN above all.
template <class Leaf>
struct LeafLanes {
  static HWY_INLINE V64 widen(hn::VFromD<D32Half> v) { return hn::PromoteTo(D64(), v); }
  template <class Stored>
  static HWY_INLINE V64 load(const Stored* p) {
    return Leaf::widen(Leaf::load_narrow(p));
  }
  template <class V>
  static HWY_INLINE auto magnitude(V v) {
    return hn::BitCast(hn::RebindToSigned<hn::DFromV<V>>(), hn::Abs(v));
  }
  template <class V>
  static HWY_INLINE V64 widen_magnitude(V v) {
    return Leaf::widen(hn::BitCast(hn::RebindToFloat<hn::DFromV<V>>(), v));
  }
};

struct F32Leaf : LeafLanes<F32Leaf> {
  using Stored = float;
  static constexpr bool kCanOverflow = false;
  static constexpr std::size_t kExactWays = 2;  // sums of so many are exact in f64 in any case
  static HWY_INLINE hn::VFromD<D32Half> load_narrow(const Stored* p) {
    return hn::LoadU(D32Half(), p);
  }
};

struct F16Leaf : LeafLanes<F16Leaf> {
  using Stored = std::uint16_t;
  static constexpr bool kCanOverflow = false;
  static constexpr std::size_t kExactWays = 8192;  // 40 bits from 2^-24 to 65504, and 13 more
  static HWY_INLINE hn::VFromD<D32Half> load_narrow(const Stored* p) {
    return f32_from_f16(D32Half(), hn::LoadU(D16Quarter(), p));
  }
};

struct BF16Leaf : LeafLanes<BF16Leaf> {
  using Stored = std::uint16_t;
  static constexpr bool kCanOverflow = false;
  static constexpr std::size_t kExactWays = 1;
  static HWY_INLINE hn::VFromD<D32Half> load_narrow(const Stored* p) {
    return f32_from_bf16(D32Half(), hn::LoadU(D16Quarter(), p));
  }
};

struct F64Leaf : LeafLanes<F64Leaf> {
  using Stored = double;
  static constexpr bool kCanOverflow = true;
  static constexpr std::size_t kExactWays = 1;
  static HWY_INLINE V64 load_narrow(const Stored* p) { return hn::LoadU(D64(), p); }
  static HWY_INLINE V64 widen(V64 v) { return v; }
};

template <class Leaf>
HWY_INLINE V64 load_leaf(const typename Leaf::Stored* p, std::size_t n) {
  if (n >= hn::Lanes(D64())) return Leaf::load(p);
  typename Leaf::Stored buffer[kMaxLanes] = {};
  std::memcpy(buffer, p, n * sizeof *p);
  return Leaf::load(buffer);
}

// Outputs: the last rounding, from a double that is the exact sum or the exact sum to odd.
struct F32Out {
  using Stored = float;
  static constexpr FloatShape kShape = kF32Shape;
  static HWY_INLINE auto round(V64 v) { return f32_from_f64(D64(), v); }
  // The same without raising the inexact flag. Without AVX-512's way to say so, the bits that do
  // not fit go by integer arithmetic; then subnormal results and overflows may still raise it.
  static HWY_INLINE auto round_quietly(V64 v) {
#if HWY_TARGET == HWY_AVX3
    return hn::VFromD<D32Half>{
        _mm512_cvt_roundpd_ps(v.raw, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
#else
    const D64Bits du;
    const auto bits = hn::BitCast(du, v);
    const auto odd = hn::And(hn::ShiftRight<29>(bits), hn::Set(du, 1));
    const auto up = hn::Add(bits, hn::Add(odd, hn::Set(du, (std::uint64_t{1} << 28) - 1)));
    const auto low = hn::Set(du, (std::uint64_t{1} << 29) - 1);
    return f32_from_f64(D64(), hn::BitCast(D64(), hn::AndNot(low, up)));
#endif
  }
  template <class V>
  static HWY_INLINE void store(V v, Stored* p) {
    hn::StoreU(v, D32Half(), p);
  }
};

// Rounds to 24 bits to odd, so that the way through f32 does not round twice.
HWY_INLINE auto f32_to_odd(V64 v) {
  const D64Bits du;
  const auto low = hn::Set(du, (std::uint64_t{1} << 29) - 1);
  const auto bits = hn::BitCast(du, v);
  const auto sticky = hn::Add(hn::And(bits, low), low);  // carries into bit 29 if any bit is set
  return f32_from_f64(D64(), hn::BitCast(D64(), hn::AndNot(low, hn::Or(bits, sticky))));
}

struct F16Out {
  using Stored = std::uint16_t;
  static constexpr FloatShape kShape = kF16Shape;
  static HWY_INLINE auto round(V64 v) { return f16_from_f32(D32Half(), f32_to_odd(v)); }
  static HWY_INLINE auto round_quietly(V64 v) { return round(v); }
  template <class V>
  static HWY_INLINE void store(V v, Stored* p) {
    hn::StoreU(v, D16Quarter(), p);
  }
};

struct BF16Out {
  using Stored = std::uint16_t;
  static constexpr FloatShape kShape = kBf16Shape;
  static HWY_INLINE auto round(V64 v) { return bf16_from_f32(D32Half(), f32_to_odd(v)); }
  static HWY_INLINE auto round_quietly(V64 v) { return round(v); }
  template <class V>
  static HWY_INLINE void store(V v, Stored* p) {
    hn::StoreU(v, D16Quarter(), p);
  }
};

struct F64Out {
  using Stored = double;
  static constexpr FloatShape kShape = kF64Shape;
  static HWY_INLINE V64 round(V64 v) { return v; }
  static HWY_INLINE void store(V64 v, Stored* p) { hn::StoreU(v, D64(), p); }
};

// The exact sum of the n_rows doubles of each column; columns are lanes. Rows are kMaxLanes doubles
// apart, aligned, and overwritten.
template <class Out>
class Columns {
 public:
  static constexpr std::size_t kMaxRows = 128;

  Columns(double* rows, std::size_t n_rows) : rows_(rows), n_rows_(n_rows) {}

  // One rounded sum a lane.
  void sum(typename Out::Stored* out) {
    if constexpr (Out::kShape.precision < 53)
      if (two_terms(out)) return;
    levels(out);
  }

 private:
  static constexpr std::size_t kMaxLevels = 64;  // f64 leaves span 2098 bits, a level at least 40

  HWY_INLINE V64 row(std::size_t r) const { return hn::Load(D64(), rows_ + r * kMaxLanes); }
  HWY_INLINE void set_row(std::size_t r, V64 v) { hn::Store(v, D64(), rows_ + r * kMaxLanes); }

  // Compensated sum with an error bound: enough if both ends of the interval round alike.
  bool two_terms(typename Out::Stored* out) const {
    const D64 d;
    V64 high = row(0), low = hn::Zero(d), magnitude = hn::Zero(d);
    for (std::size_t r = 1; r < n_rows_; ++r) {
      const TwoSum step(high, row(r));
      high = step.s;
      low = hn::Add(low, step.error);
      magnitude = hn::Add(magnitude, hn::Abs(step.error));
    }
    if (!hn::AllTrue(d, hn::IsFinite(hn::Add(high, low)))) return false;
    const V64 slack = hn::Mul(magnitude, hn::Set(d, 0x1p-52 * static_cast<double>(n_rows_)));
    const auto from = Out::round(rounded_pair(high, hn::Sub(low, slack)));
    const auto to = Out::round(rounded_pair(high, hn::Add(low, slack)));
    if (!hn::AllTrue(hn::DFromV<decltype(to)>(), hn::Eq(from, to))) return false;
    Out::store(to, out);
    return true;
  }

  // high + low for the last rounding; with nothing in low the sign of a zero is that of high.
  static HWY_INLINE V64 rounded_pair(V64 high, V64 low) {
    const V64 sum = Out::kShape.precision < 53 ? add_to_odd(high, low) : hn::Add(high, low);
    return hn::IfThenElse(hn::Eq(low, hn::Zero(D64())), high, sum);
  }

  // Takes infinities and NaNs out of the rows and returns their sum: 0 where there are none.
  V64 take_special() {
    const D64 d;
    V64 special = hn::Zero(d);
    for (std::size_t r = 0; r < n_rows_; ++r) {
      const V64 x = row(r);
      const auto finite = hn::IsFinite(x);
      special = hn::Add(special, hn::IfThenZeroElse(finite, x));
      set_row(r, hn::IfThenElseZero(finite, x));
    }
    return special;
  }

  V64 largest() const {
    V64 most = hn::Zero(D64());
    for (std::size_t r = 0; r < n_rows_; ++r) most = hn::Max(most, hn::Abs(row(r)));
    return most;
  }

  // Lanes beyond the range of cut(): takes them out of the rows and returns their rounded sums,
  // and NaN in the other lanes.
  V64 take_huge(V64 most) {
    HWY_ALIGN double lanes[kMaxLanes];
    hn::Store(most, D64(), lanes);
    for (std::size_t lane = 0; lane < hn::Lanes(D64()); ++lane) {
      const bool huge = lanes[lane] >= kHuge;
      lanes[lane] = std::numeric_limits<double>::quiet_NaN();
      if (!huge) continue;
      Superaccumulator sum;
      for (std::size_t r = 0; r < n_rows_; ++r) {
        double& x = rows_[r * kMaxLanes + lane];
        sum.add(x);
        x = 0;
      }
      lanes[lane] = sum.round(Out::kShape);
    }
    return hn::Load(D64(), lanes);
  }

  // Cuts every number at common multiples of a unit, level by level from the largest magnitude of
  // its lane down, until nothing is left. What a level cuts off sums without rounding.
  void levels(typename Out::Stored* out) {
    const D64 d;
    V64 plain = row(0);  // -0 only if all are -0
    for (std::size_t r = 1; r < n_rows_; ++r) plain = hn::Add(plain, row(r));
    const V64 special = take_special();
    const V64 huge = take_huge(largest());
    std::size_t n_levels = 0;
    for (V64 most = largest(); !hn::AllTrue(d, hn::Eq(most, hn::Zero(d))); most = largest())
      cut(most, n_levels++);
    V64 sum = join(n_levels);
    const auto zero = hn::Eq(sum, hn::Zero(d));
    const auto plain_zero = hn::And(zero, hn::Eq(plain, hn::Zero(d)));
    sum = hn::IfThenElse(plain_zero, plain, hn::IfThenZeroElse(zero, sum));
    sum = hn::IfThenElse(hn::Eq(huge, huge), huge, sum);
    sum = hn::IfThenElse(hn::Eq(special, hn::Zero(d)), sum, canonical_nan(special));
    Out::store(Out::round(sum), out);
  }

  // One level: q = (x + m) - m is x to a multiple of ulp(m), for m above all partial sums.
  void cut(V64 most, std::size_t level) {
    const D64 d;
    const D64Bits du;
    const double room = static_cast<double>(std::bit_ceil(n_rows_));
    const auto exponent = hn::And(hn::BitCast(du, most), hn::Set(du, std::uint64_t{0x7FF} << 52));
    const V64 power = hn::Max(hn::BitCast(d, exponent), hn::Set(d, 0x1p-1022));
    // With sums below the normal range nothing rounds: all of it is one level.
    const auto tiny = hn::Lt(most, hn::Set(d, 0x1p-1022 / room));
    const V64 m = hn::IfThenZeroElse(tiny, hn::Mul(power, hn::Set(d, 3.0 * room)));
    V64 sum = hn::Zero(d);
    for (std::size_t r = 0; r < n_rows_; ++r) {
      const V64 x = row(r);
      const V64 q = hn::Sub(hn::Add(x, m), m);
      sum = hn::Add(sum, q);
      set_row(r, hn::Sub(x, q));
    }
    hn::Store(sum, d, sums_ + level * kMaxLanes);
    hn::Store(m, d, units_ + level * kMaxLanes);
  }

  // Adds the levels from the lowest up. Carries first move to the level above, so that a level
  // is at most half a unit of the next one; then cancellation cannot reach what was rounded to odd.
  V64 join(std::size_t n_levels) const {
    const D64 d;
    V64 carry = hn::Zero(d), high = hn::Zero(d), low = hn::Zero(d);
    for (std::size_t level = n_levels; level-- > 0;) {
      V64 digit = hn::Add(hn::Load(d, sums_ + level * kMaxLanes), carry);
      carry = hn::Zero(d);
      if (level > 0) {
        const V64 m = hn::Load(d, units_ + (level - 1) * kMaxLanes);
        carry = hn::Sub(hn::Add(digit, m), m);
        digit = hn::Sub(digit, carry);
      }
      const TwoSum step(digit, high);
      high = step.s;
      low = add_to_odd(step.error, low);
    }
    return rounded_pair(high, low);
  }

  static constexpr double kHuge = 0x1p900;

  double* rows_;
  std::size_t n_rows_;
  HWY_ALIGN double sums_[kMaxLevels * kMaxLanes];
  HWY_ALIGN double units_[kMaxLevels * kMaxLanes];
};

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_EXACT_INL_H_
