// SPDX-License-Identifier: MIT OR Apache-2.0
// How each element type is loaded into lanes to compute in, and rounded back. Compiled once per
// instruction set: included by .cc files after foreach_target.h, guarded the way Highway asks.
#if defined(RLX_KERNELS_FORMAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef RLX_KERNELS_FORMAT_INL_H_
#undef RLX_KERNELS_FORMAT_INL_H_
#else
#define RLX_KERNELS_FORMAT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/dtype.h"

// AVX2 and better convert f16 in hardware; Highway's emulation elsewhere truncates.
#undef RLX_HAVE_F16C
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define RLX_HAVE_F16C 1
#else
#define RLX_HAVE_F16C 0
#endif

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using U16For = hn::Rebind<std::uint16_t, D>;

// f32 lanes to bf16 bits, to nearest even. A NaN keeps its sign and becomes quiet.
template <class D>
HWY_INLINE hn::VFromD<U16For<D>> bf16_from_f32([[maybe_unused]] D d, hn::VFromD<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  return hn::TruncateTo(U16For<D>(), hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded)));
}

template <class D>
HWY_INLINE hn::VFromD<D> f32_from_bf16([[maybe_unused]] D d, hn::VFromD<U16For<D>> v) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, v)));
}

#if RLX_HAVE_F16C

template <class D>
HWY_INLINE hn::VFromD<U16For<D>> f16_from_f32(D, hn::VFromD<D> v) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::BitCast(U16For<D>(), hn::DemoteTo(d16, v));
}

template <class D>
HWY_INLINE hn::VFromD<D> f32_from_f16([[maybe_unused]] D d, hn::VFromD<U16For<D>> v) {
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::BitCast(d16, v));
}

#else

// The float adder rounds subnormal results: 0.5 has the unit 2^-24 of an f16 subnormal. Normal
// results are rounded as integers, where a carry out of the mantissa is right by itself.
template <class D>
HWY_INLINE hn::VFromD<U16For<D>> f16_from_f32([[maybe_unused]] D d, hn::VFromD<D> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto sign = hn::And(bits, hn::Set(du, 0x80000000u));
  const auto mag = hn::Xor(bits, sign);
  const auto half = hn::Set(d, 0.5f);
  const auto tiny =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(d, mag), half)), hn::BitCast(du, half));
  const auto odd = hn::And(hn::ShiftRight<13>(mag), hn::Set(du, 1));
  const auto bias = hn::Set(du, 0xFFFu - (112u << 23));
  const auto normal = hn::ShiftRight<13>(hn::Add(mag, hn::Add(odd, bias)));
  const auto is_nan = hn::Gt(mag, hn::Set(du, 0x7F800000u));
  const auto special = hn::IfThenElse(is_nan, hn::Set(du, 0x7E00), hn::Set(du, 0x7C00));
  auto out = hn::IfThenElse(hn::Lt(mag, hn::Set(du, 0x38800000u)), tiny, normal);
  out = hn::IfThenElse(hn::Ge(mag, hn::Set(du, 0x47800000u)), special, out);
  return hn::TruncateTo(U16For<D>(), hn::Or(out, hn::ShiftRight<16>(sign)));
}

template <class D>
HWY_INLINE hn::VFromD<D> f32_from_f16([[maybe_unused]] D d, hn::VFromD<U16For<D>> v) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::PromoteTo(du, v);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000)));
  const auto mag = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7FFF)));
  const auto exponent = hn::And(mag, hn::Set(du, 0x0F800000));
  const auto normal = hn::Add(mag, hn::Set(du, 112u << 23));
  const auto special = hn::Add(normal, hn::Set(du, 112u << 23));
  const auto smallest = hn::Set(du, 113u << 23);  // 2^-14, the implied bit that has to go
  const auto tiny = hn::Sub(hn::BitCast(d, hn::Add(mag, smallest)), hn::BitCast(d, smallest));
  auto out = hn::IfThenElse(hn::Eq(exponent, hn::Set(du, 0x0F800000)), special, normal);
  out = hn::IfThenElse(hn::Eq(exponent, hn::Zero(du)), hn::BitCast(du, tiny), out);
  return hn::BitCast(d, hn::Or(out, sign));
}

#endif  // RLX_HAVE_F16C

// f64 lanes to f32 by the processor's rule; Highway's portable builds clamp where this overflows.
template <class D>
HWY_INLINE hn::VFromD<hn::Rebind<float, D>> f32_from_f64([[maybe_unused]] D d, hn::VFromD<D> v) {
  const hn::Rebind<float, D> d32;
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  HWY_ALIGN double wide[hn::MaxLanes(d)];
  HWY_ALIGN float narrow[hn::MaxLanes(d32)];
  hn::Store(v, d, wide);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) narrow[i] = static_cast<float>(wide[i]);
  return hn::Load(d32, narrow);
#else
  return hn::DemoteTo(d32, v);
#endif
}

// Formats: Stored is the type in memory, D the lanes that arithmetic uses.
template <class T>
struct Plain {
  using Stored = T;
  using D = hn::ScalableTag<T>;
  using V = hn::VFromD<D>;
  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), p); }
  static HWY_INLINE void stream(V v, T* p) { hn::Stream(v, D(), p); }
};

struct F16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  static HWY_INLINE V load(const Stored* p) { return f32_from_f16(D(), hn::LoadU(U16For<D>(), p)); }
  static HWY_INLINE void store(V v, Stored* p) { hn::StoreU(f16_from_f32(D(), v), U16For<D>(), p); }
  static HWY_INLINE void stream(V v, Stored* p) {
    hn::Stream(f16_from_f32(D(), v), U16For<D>(), p);
  }
};

struct BF16 {
  using Stored = std::uint16_t;
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  static HWY_INLINE V load(const Stored* p) {
    return f32_from_bf16(D(), hn::LoadU(U16For<D>(), p));
  }
  static HWY_INLINE void store(V v, Stored* p) {
    hn::StoreU(bf16_from_f32(D(), v), U16For<D>(), p);
  }
  static HWY_INLINE void stream(V v, Stored* p) {
    hn::Stream(bf16_from_f32(D(), v), U16For<D>(), p);
  }
};

// Whether masked loads and stores of F touch no memory beyond the mask; Highway's emulation does.
template <class F>
constexpr bool has_masks() {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  constexpr bool kAnySize = HWY_TARGET <= HWY_AVX3;
  using Stored = typename F::Stored;
  return std::is_same_v<F, Plain<Stored>> && (kAnySize || sizeof(Stored) >= 4);
#else
  return false;
#endif
}

// A vector of elements or fewer; where there are no masks, these by way of a zeroed buffer, which
// the processor waits for.
template <class F>
HWY_INLINE typename F::V load_some(const typename F::Stored* p, std::size_t n) {
  const typename F::D d;
  if (n >= hn::Lanes(d)) return F::load(p);
  if constexpr (has_masks<F>()) {
    return hn::MaskedLoad(hn::FirstN(d, n), d, p);
  } else {
    typename F::Stored buffer[hn::MaxLanes(d)] = {};
    std::memcpy(buffer, p, n * sizeof *p);
    return F::load(buffer);
  }
}

template <class F>
HWY_INLINE void store_some(typename F::V v, typename F::Stored* p, std::size_t n) {
  const typename F::D d;
  if (n >= hn::Lanes(d)) return F::store(v, p);
  if constexpr (has_masks<F>()) {
    hn::BlendedStore(v, hn::FirstN(d, n), d, p);
  } else {
    typename F::Stored buffer[hn::MaxLanes(d)];
    F::store(v, buffer);
    std::memcpy(p, buffer, n * sizeof *p);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#endif  // RLX_KERNELS_FORMAT_INL_H_
