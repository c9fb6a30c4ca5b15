// SPDX-License-Identifier: MIT OR Apache-2.0
// Conversions between f32 and the narrow types, to nearest with ties to even.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace rlx::kernels {

// f16 and bf16 are stored as their bits. Out of range gives infinity; a NaN stays a NaN.
void f32_to_f16(std::uint16_t* dst, const float* src, std::size_t count);
void f16_to_f32(float* dst, const std::uint16_t* src, std::size_t count);
void f32_to_bf16(std::uint16_t* dst, const float* src, std::size_t count);
void bf16_to_f32(float* dst, const std::uint16_t* src, std::size_t count);

// dst = src / scale rounded to nearest and clamped to [-127, 127]; NaN gives 0.
// The way back: dst = src * scale.
void f32_to_i8(std::int8_t* dst, const float* src, std::size_t count, float scale);
void i8_to_f32(float* dst, const std::int8_t* src, std::size_t count, float scale);

// The scale for f32_to_i8 that maps the largest finite magnitude to 127 (1 if all are 0).
float i8_scale(const float* src, std::size_t count);

}  // namespace rlx::kernels
