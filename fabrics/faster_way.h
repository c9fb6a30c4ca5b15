// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of two ways takes a message of a peer faster: reading it from the peer's memory (one copy,
// in which the kernel pins each page) or having it sent through shared memory (two copies at the
// same time). That depends on what caches the two cores share, which no cost model knows and which
// a scheduler may change any time: on one machine reading was between 0.7 and 5.8 times as fast. So
// the receiver tries both ways, a few messages each, and now and then again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace rlx {

class FasterWay {
 public:
  enum Way : std::uint8_t { kRead, kSent };

  // For the next message.
  Way choose(std::uint64_t n_bytes) {
    Size& size = of(n_bytes);
    if (size.n_until_trial-- == 0) size.begin_trial();
    for (const Way way : {kRead, kSent})
      if (size.n_to_try[way] > 0) return --size.n_to_try[way], way;
    return size.best;
  }

  void took(Way way, std::uint64_t n_bytes, std::int64_t ns) {
    of(n_bytes).took(way, static_cast<double>(ns) / static_cast<double>(n_bytes));
  }

 private:
  // The first few that come another way than those before them meet other caches (a ring whose
  // lines nobody has read of late takes half the time), and any one may be interrupted: the best of
  // the last few is what counts.
  static constexpr int kTries = 6, kFew = 3;
  static constexpr std::int64_t kLookAgain = 256;  // messages, times what the worse way costs

  struct Size {
    void begin_trial() {
      for (const Way way : {kRead, kSent}) n_to_try[way] = n_to_see[way] = kTries;
      n_until_trial = kLookAgain;
    }
    void took(Way way, double ns_a_byte) {
      if (n_to_see[way] == 0) return;
      least[way] = n_to_see[way] >= kFew ? ns_a_byte : std::min(least[way], ns_a_byte);
      if (--n_to_see[way] > 0 || n_to_see[1 - way] > 0) return;
      best = least[kRead] <= least[kSent] ? kRead : kSent;
      const double ratio = least[1 - best] / std::max(least[best], 1e-9);
      n_until_trial = static_cast<std::int64_t>(kLookAgain * std::clamp(ratio, 1.0, 16.0));
    }

    int n_to_try[2] = {0, 0}, n_to_see[2] = {0, 0};
    double least[2] = {0, 0};  // ns a byte, of the last trial
    Way best = kRead;
    std::int64_t n_until_trial = 0;
  };

  // What fits which cache differs, and what a system call counts for.
  static constexpr std::uint64_t kBounds[] = {32 << 10, 512 << 10, 4 << 20};
  Size& of(std::uint64_t n_bytes) {
    return sizes_[std::ranges::upper_bound(kBounds, n_bytes) - kBounds];
  }
  Size sizes_[std::size(kBounds) + 1];
};

}  // namespace rlx
