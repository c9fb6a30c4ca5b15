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

// When a wait gives up. Never() is for waits that something else bounds. The clock is first read
// when somebody asks (passed(), left_ns()), so a wait that ends at once never reads it; until then
// copies start on their own, and started() fixes the start for a series of waits.
class Deadline {
 public:
  static Deadline never() { return Deadline(kNever); }
  static Deadline after_ms(std::int64_t ms) { return Deadline(ms * 1000000); }

  bool is_never() const { return limit_ns_ == kNever; }
  bool passed() const { return !is_never() && now_ns() >= at_ns(); }
  // Nanoseconds left, 0 when passed, INT64_MAX when never.
  std::int64_t left_ns() const {
    if (is_never()) return kNever;
    const std::int64_t left = at_ns() - now_ns();
    return left > 0 ? left : 0;
  }
  // The whole time a wait has; meaningless when never.
  std::int64_t limit_ms() const { return limit_ns_ / 1000000; }
  Deadline started() const {
    if (!is_never()) at_ns();
    return *this;
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  explicit Deadline(std::int64_t limit_ns) : limit_ns_(limit_ns) {}
  std::int64_t at_ns() const {
    if (at_ns_ == 0) at_ns_ = now_ns() + limit_ns_;
    return at_ns_;
  }

  std::int64_t limit_ns_;
  mutable std::int64_t at_ns_ = 0;  // 0: not started
};

}  // namespace rlx
