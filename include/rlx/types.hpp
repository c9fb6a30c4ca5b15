// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors, element types, operations and views of the C++ face; include <rlx/rlx.hpp>.
#pragma once

#include <rlx/rlx.h>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace rlx {
inline namespace face {

// --- Errors -------------------------------------------------------------------------------------

class Error : public std::runtime_error {
 public:
  Error(rlx_error code, const std::string& text) : std::runtime_error(text), code_(code) {}
  rlx_error code() const noexcept { return code_; }

 private:
  rlx_error code_;
};

// Throws the error that an rlx.h call returned; for callers who mix both interfaces.
inline void check(int code) {
  if (code != RLX_SUCCESS) throw Error(static_cast<rlx_error>(code), rlx_error_text());
}

// --- Element types ------------------------------------------------------------------------------

// Storage types: they convert from and to float (round to nearest even) and have no arithmetic.
// bf16: 8 bits of exponent, 7 of fraction.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (u & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>(is_nan ? (u >> 16U) | 0x40U
                                             : (u + 0x7fffU + ((u >> 16U) & 1U)) >> 16U);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

// f16: IEEE binary16, 5 bits of exponent, 10 of fraction.
struct f16 {
  std::uint16_t bits = 0;

  f16() = default;
  explicit f16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (u >> 16U) & 0x8000U;
    const std::uint32_t magnitude = u & 0x7fffffffU;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
      half = 0x7e00U;  // NaN
    } else if (magnitude >= 0x47800000U) {
      half = 0x7c00U;  // 2^16 and above: infinity
    } else if (magnitude < 0x38800000U) {
      // Below 2^-14: adding 0.5 makes the unit of the float's last place 2^-24, the subnormal step.
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    } else {
      half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13U) & 1U)) >> 13U;
    }
    bits = static_cast<std::uint16_t>(sign | half);
  }
  explicit operator float() const {
    const std::uint32_t sign = (bits & 0x8000U) << 16U;
    const std::uint32_t magnitude = bits & 0x7fffU;
    if (magnitude >= 0x7c00U) {
      return std::bit_cast<float>(sign | 0x7f800000U | ((magnitude & 0x3ffU) << 13U));
    }
    // Exponent bias 15 to 127 by a multiplication, which is right for subnormals too.
    const float value = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
};

// The rlx_dtype of an element type: integers of 1, 4 and 8 bytes (char and std::byte are u8),
// float, double, f16, bf16. Other types do not satisfy Element.
template <class T>
constexpr std::optional<rlx_dtype> find_dtype() {
  if constexpr (std::same_as<T, std::byte> || std::same_as<T, char>) return RLX_U8;
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    if (sizeof(T) == 1) return is_signed ? RLX_I8 : RLX_U8;
    if (sizeof(T) == 4) return is_signed ? RLX_I32 : RLX_U32;
    if (sizeof(T) == 8) return is_signed ? RLX_I64 : RLX_U64;
  }
  if constexpr (std::same_as<T, float>) return RLX_F32;
  if constexpr (std::same_as<T, double>) return RLX_F64;
  if constexpr (std::same_as<T, f16>) return RLX_F16;
  if constexpr (std::same_as<T, bf16>) return RLX_BF16;
  return std::nullopt;
}

template <class T>
concept Element = find_dtype<std::remove_cv_t<T>>()
.has_value();

template <Element T>
inline constexpr rlx_dtype kDtype = *find_dtype<std::remove_cv_t<T>>();

enum class Op : int {
  sum = RLX_SUM,
  prod = RLX_PROD,
  min = RLX_MIN,
  max = RLX_MAX,
  avg = RLX_AVG,    // sum, then one division by the number of ranks
  land = RLX_LAND,  // logical and bitwise ones: integer types only
  lor = RLX_LOR,
  lxor = RLX_LXOR,
  band = RLX_BAND,
  bor = RLX_BOR,
  bxor = RLX_BXOR
};

// How floating-point sums are formed; all ranks get the same bits in every mode.
enum class Mode : int {
  fast = RLX_FAST,        // any order
  ordered = RLX_ORDERED,  // the same bits whenever the number of ranks is the same
  exact = RLX_EXACT       // the exact sum, rounded once: the same bits for any number and order
};

inline constexpr int kAnySource = RLX_ANY_SOURCE;
inline constexpr int kAnyTag = RLX_ANY_TAG;

// --- Views --------------------------------------------------------------------------------------

template <class R>
concept ElementRange = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> && Element<std::ranges::range_value_t<R>>;

// What a call reads.
struct In {
  const void* data = nullptr;
  std::uint64_t count = 0;
  rlx_dtype dtype = RLX_U8;

  In() = default;
  template <ElementRange R>
  In(R&& range)  // NOLINT: implicit, so that calls take containers
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(kDtype<std::ranges::range_value_t<R>>) {}
};

// What a call writes.
struct Out {
  void* data = nullptr;
  std::uint64_t count = 0;
  rlx_dtype dtype = RLX_U8;

  Out() = default;
  template <ElementRange R>
  requires(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>)
      Out(R&& range)  // NOLINT: implicit, so that calls take containers
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(kDtype<std::ranges::range_value_t<R>>) {}
};

}  // namespace face
}  // namespace rlx
