// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of two ways takes a message of a peer faster: reading it from the peer's memory (one copy,
// in which the kernel pins each page) or having it sent through shared memory (two copies at the
// same time). That depends on what caches the two cores share, which no cost model knows and which
// a scheduler may change any time: on one machine reading was between 0.7 and 5.8 times as fast. So
// the receiver looks at what both ways took, and now and then looks again.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rlx {

class FasterWay {
 public:
  enum Way : std::uint8_t { kRead, kSent };

  // For the next message.
  Way choose(std::uint64_t n_bytes) {
    Size& size = of(n_bytes);
    for (const Way way : {kRead, kSent})
      if (size.n_seen[way] < kLeastSeen) return way;
    const Way best = size.ns_per_byte[kRead] <= size.ns_per_byte[kSent] ? kRead : kSent;
    return ++size.n_chosen % kLookAgain == 0 ? static_cast<Way>(1 - best) : best;
  }

  void took(Way way, std::uint64_t n_bytes, std::int64_t ns) {
    Size& size = of(n_bytes);
    double& known = size.ns_per_byte[way];
    const double seen = static_cast<double>(ns) / static_cast<double>(n_bytes);
    // The first one may have met pages that did not exist yet, a later one a sender that was busy.
    if (size.n_seen[way] < kLeastSeen)
      known = size.n_seen[way]++ == 0 ? seen : std::min(known, seen);
    else
      known += (std::min(seen, 4 * known) - known) / 4;
  }

 private:
  static constexpr std::uint32_t kLeastSeen = 2, kLookAgain = 64;
  // Below 512 KiB, below 4 MiB, and larger: what fits which cache differs.
  struct Size {
    double ns_per_byte[2] = {0, 0};
    std::uint32_t n_seen[2] = {0, 0}, n_chosen = 0;
  };
  Size& of(std::uint64_t n_bytes) {
    return sizes_[n_bytes < (512 << 10) ? 0 : n_bytes < (4 << 20) ? 1 : 2];
  }
  Size sizes_[3];
};

}  // namespace rlx
