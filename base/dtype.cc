// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/dtype.h"

#include <array>

namespace rlx {
namespace {

constexpr std::array<std::string_view, kDtypeCount> kDtypeNames = {
    "i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64"};
constexpr std::array<std::string_view, kOpCount> kOpNames = {
    "sum", "prod", "min", "max", "avg", "land", "lor", "lxor", "band", "bor", "bxor"};

template <class Enum, std::size_t N>
std::optional<Enum> from_name(const std::array<std::string_view, N>& names, std::string_view name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Dtype dtype) { return kDtypeNames[static_cast<int>(dtype)]; }
std::string_view name_of(Op op) { return kOpNames[static_cast<int>(op)]; }
std::optional<Dtype> dtype_from_name(std::string_view name) {
  return from_name<Dtype>(kDtypeNames, name);
}
std::optional<Op> op_from_name(std::string_view name) { return from_name<Op>(kOpNames, name); }

}  // namespace rlx
