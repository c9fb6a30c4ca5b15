// SPDX-License-Identifier: MIT OR Apache-2.0
#include "kernels/reduce.h"

#include <limits>
#include <type_traits>

#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/reduce.cc"
// After HWY_TARGET_INCLUDE.
#include <hwy/foreach_target.h>

#include "kernels/ways-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

// An operation: lift() prepares each input, combine() joins two.
struct AsIs {
  template <class D, class V>
  static HWY_INLINE V lift(D, V v) {
    return v;
  }
};

struct AsBool {
  template <class D, class V>
  static HWY_INLINE V lift([[maybe_unused]] D d, V v) {
    return hn::IfThenElse(hn::Eq(v, hn::Zero(d)), hn::Zero(d), hn::Set(d, 1));
  }
};

struct Sum : AsIs {
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct Prod : AsIs {
  template <class D, class V>
  static HWY_INLINE V combine([[maybe_unused]] D d, V a, V b) {
    if constexpr (sizeof(hn::TFromD<D>) > 1) {
      return hn::Mul(a, b);
    } else if constexpr (hn::MaxLanes(D()) == 1) {
      return hn::Set(d, static_cast<hn::TFromD<D>>(hn::GetLane(a) * hn::GetLane(b)));
    } else {  // no byte multiply: odd and even bytes as 16-bit lanes
      const hn::Repartition<std::uint16_t, D> d16;
      const auto a16 = hn::BitCast(d16, a), b16 = hn::BitCast(d16, b);
      const auto even = hn::And(hn::Mul(a16, b16), hn::Set(d16, 0xFF));
      const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::ShiftRight<8>(b16));
      return hn::BitCast(d, hn::Or(even, hn::ShiftLeft<8>(odd)));
    }
  }
};

template <bool kLeast>
struct Extreme : AsIs {
  template <class D, class V>
  static HWY_INLINE V combine([[maybe_unused]] D d, V a, V b) {
    if constexpr (!hwy::IsFloat<hn::TFromD<D>>()) {
      return kLeast ? hn::Min(a, b) : hn::Max(a, b);
    } else {
      const V quiet_nan = hn::Set(d, std::numeric_limits<hn::TFromD<D>>::quiet_NaN());
      // Equal inputs have the same bits, or are zeros: the least one is -0 if there is one.
      const V equal = kLeast ? hn::Or(a, b) : hn::And(a, b);
      const V unequal = hn::IfThenElse(hn::Lt(a, b), kLeast ? a : b, kLeast ? b : a);
      const auto is_nan = hn::Or(hn::IsNaN(a), hn::IsNaN(b));
      return hn::IfThenElse(is_nan, quiet_nan, hn::IfThenElse(hn::Eq(a, b), equal, unequal));
    }
  }
};
using Min = Extreme<true>;
using Max = Extreme<false>;

template <class Lift>
struct AndOp : Lift {
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::And(a, b);
  }
};

template <class Lift>
struct OrOp : Lift {
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Or(a, b);
  }
};

template <class Lift>
struct XorOp : Lift {
  template <class D, class V>
  static HWY_INLINE V combine(D, V a, V b) {
    return hn::Xor(a, b);
  }
};

template <class F, class O>
void run(const Ways& ways) {
  WaysLoop<F, O>(ways).run();
}

template <class F>
void float_ways(Op op, const Ways& ways) {
  switch (op) {
    case Op::prod:
      return run<F, Prod>(ways);
    case Op::min:
      return run<F, Min>(ways);
    case Op::max:
      return run<F, Max>(ways);
    default:
      return run<F, Sum>(ways);
  }
}

// Bits have no type.
void bit_ways(Op op, const Ways& ways) {
  using Bytes = Plain<std::uint8_t>;
  if (op == Op::band) return run<Bytes, AndOp<AsIs>>(ways);
  if (op == Op::bor) return run<Bytes, OrOp<AsIs>>(ways);
  run<Bytes, XorOp<AsIs>>(ways);
}

// Signed integers need their own code only for the order: U is the unsigned type of the size.
template <class T, class U>
void int_ways(Op op, const Ways& ways) {
  if (op == Op::band || op == Op::bor || op == Op::bxor)
    return bit_ways(op, {ways.dsts, ways.srcs, ways.count * sizeof(T), ways.stores});
  switch (op) {
    case Op::prod:
      return run<Plain<U>, Prod>(ways);
    case Op::min:
      return run<Plain<T>, Min>(ways);
    case Op::max:
      return run<Plain<T>, Max>(ways);
    case Op::land:
      return run<Plain<U>, AndOp<AsBool>>(ways);
    case Op::lor:
      return run<Plain<U>, OrOp<AsBool>>(ways);
    case Op::lxor:
      return run<Plain<U>, XorOp<AsBool>>(ways);
    default:
      return run<Plain<U>, Sum>(ways);
  }
}

void reduce_ways(Dtype dtype, Op op, const Ways& ways) {
  switch (dtype) {
    case Dtype::i8:
      return int_ways<std::int8_t, std::uint8_t>(op, ways);
    case Dtype::u8:
      return int_ways<std::uint8_t, std::uint8_t>(op, ways);
    case Dtype::i32:
      return int_ways<std::int32_t, std::uint32_t>(op, ways);
    case Dtype::u32:
      return int_ways<std::uint32_t, std::uint32_t>(op, ways);
    case Dtype::i64:
      return int_ways<std::int64_t, std::uint64_t>(op, ways);
    case Dtype::u64:
      return int_ways<std::uint64_t, std::uint64_t>(op, ways);
    case Dtype::f16:
      return float_ways<F16>(op, ways);
    case Dtype::bf16:
      return float_ways<BF16>(op, ways);
    case Dtype::f32:
      return float_ways<Plain<float>>(op, ways);
    case Dtype::f64:
      return float_ways<Plain<double>>(op, ways);
  }
}

template <class F>
void divide_floats(void* data, std::size_t count, std::size_t divisor) {
  using T = hn::TFromD<typename F::D>;
  const auto by = hn::Set(typename F::D(), static_cast<T>(divisor));
  const std::size_t n = hn::Lanes(typename F::D());
  auto* at = static_cast<typename F::Stored*>(data);
  std::size_t i = 0;
  for (; i + n <= count; i += n) F::store(hn::Div(F::load(at + i), by), at + i);
  if (i < count) store_some<F>(hn::Div(load_some<F>(at + i, count - i), by), at + i, count - i);
}

void divide_by(Dtype dtype, void* data, std::size_t count, std::size_t divisor) {
  switch (dtype) {
    case Dtype::f16:
      return divide_floats<F16>(data, count, divisor);
    case Dtype::bf16:
      return divide_floats<BF16>(data, count, divisor);
    case Dtype::f32:
      return divide_floats<Plain<float>>(data, count, divisor);
    default:
      return divide_floats<Plain<double>>(data, count, divisor);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(reduce_ways);
HWY_EXPORT(divide_by);

template <class T>
void divide_ints(void* data, std::size_t count, std::size_t divisor) {
  T* at = static_cast<T*>(data);
  // Wide enough for every quotient; a divisor beyond the type gives 0 either way.
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_signed_v<T>) {
      at[i] = static_cast<T>(static_cast<std::int64_t>(at[i]) / static_cast<std::int64_t>(divisor));
    } else {
      at[i] = static_cast<T>(at[i] / divisor);
    }
  }
}

}  // namespace

void reduce2(Dtype dtype, Op op, void* dst, const void* a, const void* b, std::size_t count) {
  void* const dsts[] = {dst};
  const void* const srcs[] = {a, b};
  reduce_n(dtype, op, dsts, srcs, count);
}

void reduce_n(Dtype dtype, Op op, std::span<void* const> dsts, std::span<const void* const> srcs,
              std::size_t count, Stores stores) {
  HWY_DYNAMIC_DISPATCH(reduce_ways)(dtype, op, {dsts, srcs, count, stores});
}

void divide(Dtype dtype, void* data, std::size_t count, std::size_t divisor) {
  if (divisor == 1) return;
  switch (dtype) {
    case Dtype::i8:
      return divide_ints<std::int8_t>(data, count, divisor);
    case Dtype::u8:
      return divide_ints<std::uint8_t>(data, count, divisor);
    case Dtype::i32:
      return divide_ints<std::int32_t>(data, count, divisor);
    case Dtype::u32:
      return divide_ints<std::uint32_t>(data, count, divisor);
    case Dtype::i64:
      return divide_ints<std::int64_t>(data, count, divisor);
    case Dtype::u64:
      return divide_ints<std::uint64_t>(data, count, divisor);
    default:
      return HWY_DYNAMIC_DISPATCH(divide_by)(dtype, data, count, divisor);
  }
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
