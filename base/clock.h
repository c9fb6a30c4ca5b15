// SPDX-License-Identifier: MIT OR Apache-2.0
// Monotonic time and deadlines.
#pragma once

#include <time.h>

#include <cstdint>
#include <limits>

namespace rlx {

inline std::int64_t now_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * std::int64_t{1000000000} + ts.tv_nsec;
}

// A point in monotonic time after which a wait gives up. Never() is for waits that something
// else bounds.
class Deadline {
 public:
  static Deadline never() { return Deadline(std::numeric_limits<std::int64_t>::max()); }
  static Deadline after_ms(std::int64_t ms) { return Deadline(now_ns() + ms * 1000000); }

  bool is_never() const { return at_ns_ == std::numeric_limits<std::int64_t>::max(); }
  bool passed() const { return !is_never() && now_ns() >= at_ns_; }
  // Nanoseconds left, 0 when passed, INT64_MAX when never.
  std::int64_t left_ns() const {
    if (is_never()) return at_ns_;
    const std::int64_t left = at_ns_ - now_ns();
    return left > 0 ? left : 0;
  }

 private:
  explicit Deadline(std::int64_t at_ns) : at_ns_(at_ns) {}
  std::int64_t at_ns_;
};

}  // namespace rlx
