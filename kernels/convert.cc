// SPDX-License-Identifier: MIT OR Apache-2.0
#include "kernels/convert.h"

#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
// After HWY_TARGET_INCLUDE.
#include <hwy/foreach_target.h>

#include "kernels/format-inl.h"

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {

using F32 = Plain<float>;

// Integers held as bytes, computed with as f32.
struct I8 {
  using Stored = std::int8_t;
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  static HWY_INLINE V load(const Stored* p) {
    const hn::RebindToSigned<D> d32;
    const hn::Rebind<std::int8_t, D> d8;
    return hn::ConvertTo(D(), hn::PromoteTo(d32, hn::LoadU(d8, p)));
  }
  static HWY_INLINE void store(V v, Stored* p) {
    const D d;
    const hn::Rebind<std::int8_t, D> d8;
    const V known = hn::IfThenElseZero(hn::Eq(v, v), v);
    const V clamped = hn::Max(hn::Min(known, hn::Set(d, 127.f)), hn::Set(d, -127.f));
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(clamped)), d8, p);
  }
};

struct Same {
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return v;
  }
};

struct Times {
  float factor;
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return hn::Mul(v, hn::Set(F32::D(), factor));
  }
};

struct Over {
  float divisor;
  template <class V>
  HWY_INLINE V operator()(V v) const {
    return hn::Div(v, hn::Set(F32::D(), divisor));
  }
};

template <class From, class To, class Map>
HWY_INLINE void convert_all(typename To::Stored* dst, const typename From::Stored* src,
                            std::size_t count, Map map) {
  const std::size_t n = hn::Lanes(F32::D());
  std::size_t i = 0;
  for (; i + n <= count; i += n) To::store(map(From::load(src + i)), dst + i);
  if (i < count) store_some<To>(map(load_some<From>(src + i, count - i)), dst + i, count - i);
}

void to_f16(std::uint16_t* dst, const float* src, std::size_t count) {
  convert_all<F32, F16>(dst, src, count, Same());
}
void from_f16(float* dst, const std::uint16_t* src, std::size_t count) {
  convert_all<F16, F32>(dst, src, count, Same());
}
void to_bf16(std::uint16_t* dst, const float* src, std::size_t count) {
  convert_all<F32, BF16>(dst, src, count, Same());
}
void from_bf16(float* dst, const std::uint16_t* src, std::size_t count) {
  convert_all<BF16, F32>(dst, src, count, Same());
}
void to_i8(std::int8_t* dst, const float* src, std::size_t count, float scale) {
  convert_all<F32, I8>(dst, src, count, Over{scale});
}
void from_i8(float* dst, const std::int8_t* src, std::size_t count, float scale) {
  convert_all<I8, F32>(dst, src, count, Times{scale});
}

float max_finite(const float* src, std::size_t count) {
  const F32::D d;
  const std::size_t n = hn::Lanes(d);
  const auto finite_abs = [d](F32::V v) {
    const auto mag = hn::Abs(v);
    return hn::IfThenElseZero(hn::Le(mag, hn::Set(d, std::numeric_limits<float>::max())), mag);
  };
  auto most = hn::Zero(d);
  std::size_t i = 0;
  for (; i + n <= count; i += n) most = hn::Max(most, finite_abs(F32::load(src + i)));
  if (i < count) most = hn::Max(most, finite_abs(load_some<F32>(src + i, count - i)));
  return hn::GetLane(hn::MaxOfLanes(d, most));
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {

HWY_EXPORT(to_f16);
HWY_EXPORT(from_f16);
HWY_EXPORT(to_bf16);
HWY_EXPORT(from_bf16);
HWY_EXPORT(to_i8);
HWY_EXPORT(from_i8);
HWY_EXPORT(max_finite);

void f32_to_f16(std::uint16_t* dst, const float* src, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(to_f16)(dst, src, count);
}
void f16_to_f32(float* dst, const std::uint16_t* src, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(from_f16)(dst, src, count);
}
void f32_to_bf16(std::uint16_t* dst, const float* src, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(to_bf16)(dst, src, count);
}
void bf16_to_f32(float* dst, const std::uint16_t* src, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(from_bf16)(dst, src, count);
}
void f32_to_i8(std::int8_t* dst, const float* src, std::size_t count, float scale) {
  HWY_DYNAMIC_DISPATCH(to_i8)(dst, src, count, scale);
}
void i8_to_f32(float* dst, const std::int8_t* src, std::size_t count, float scale) {
  HWY_DYNAMIC_DISPATCH(from_i8)(dst, src, count, scale);
}

float i8_scale(const float* src, std::size_t count) {
  const float most = HWY_DYNAMIC_DISPATCH(max_finite)(src, count);
  const float scale = most / 127;
  return scale > 0 ? scale : 1;
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
