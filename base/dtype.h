// SPDX-License-Identifier: MIT OR Apache-2.0
// Element types and reduction operations, by their public numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlx {

// Values are part of the C ABI (rlx_dtype, rlx_op in include/rlx/rlx.h).
enum class Dtype : std::uint8_t { i8, u8, i32, u32, i64, u64, f16, bf16, f32, f64 };
enum class Op : std::uint8_t { sum, prod, min, max, avg, land, lor, lxor, band, bor, bxor };

inline constexpr int kDtypeCount = 10;
inline constexpr int kOpCount = 11;

constexpr std::size_t size_of(Dtype dtype) {
  constexpr std::uint8_t kSize[kDtypeCount] = {1, 1, 4, 4, 8, 8, 2, 2, 4, 8};
  return kSize[static_cast<int>(dtype)];
}

constexpr bool is_float(Dtype dtype) { return dtype >= Dtype::f16; }

// Logical and bitwise operations are for integers only; everything else takes every type.
constexpr bool op_applies(Op op, Dtype dtype) { return op < Op::land || !is_float(dtype); }

std::string_view name_of(Dtype dtype);
std::string_view name_of(Op op);
std::optional<Dtype> dtype_from_name(std::string_view name);
std::optional<Op> op_from_name(std::string_view name);

}  // namespace rlx
