// SPDX-License-Identifier: MIT OR Apache-2.0
// Little-endian bytes for what leaves the process: addresses, blobs, files. A reader never runs
// past its end: after a short or malformed read ok() is false for good and every value reads as
// zero.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace rlx {

static_assert(std::endian::native == std::endian::little,
              "rlx supports little-endian machines only");

class ByteWriter {
 public:
  template <class T>
  void put(T value) {
    static_assert(std::is_integral_v<T> || std::is_floating_point_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  // Length (u32) and content.
  void put_string(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T get() {
    static_assert(std::is_integral_v<T> || std::is_floating_point_v<T>);
    T value{};
    if (bytes_.size() < sizeof value) {
      ok_ = false;
      return value;
    }
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_.remove_prefix(sizeof value);
    return value;
  }
  // A view into the bytes given to the constructor.
  std::string_view get_string() {
    const auto n = get<std::uint32_t>();
    if (bytes_.size() < n) {
      ok_ = false;
      return {};
    }
    const auto text = bytes_.substr(0, n);
    bytes_.remove_prefix(n);
    return text;
  }
  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size(); }
  bool at_end() const { return ok_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace rlx
