// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of two ways of doing the same is faster, where that depends on what caches the cores of two
// ranks share: no cost model knows it, and a scheduler may change it any time. (A message of 64 KiB
// between ranks of one machine took 0.2 to 1.3 times as long when it was read from the sender's
// memory, from one minute to the next.) So both are tried, a few times each, and now and then
// again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace rlx {

// Sizes that are tried apart: what fits which cache differs, and what a system call counts for.
inline constexpr std::uint64_t kSizeClassBounds[] = {32 << 10, 512 << 10, 4 << 20};
inline constexpr int kSizeClasses = static_cast<int>(std::size(kSizeClassBounds)) + 1;
inline int size_class(std::uint64_t n_bytes) {
  return static_cast<int>(std::ranges::upper_bound(kSizeClassBounds, n_bytes) - kSizeClassBounds);
}

// Two ways, 0 and 1, of something that is done over and over.
class WayTrial {
 public:
  // For the next time. Large ones leave their mark on the caches at once, and need fewer tries.
  int next(bool large) {
    if (n_until_trial_-- == 0) {
      n_tries_ = large ? 2 : 6;
      for (const int way : {0, 1}) n_to_try_[way] = n_to_see_[way] = n_tries_;
      n_until_trial_ = period_;
      period_ = std::min(2 * period_, kLookAgain);
    }
    for (const int way : {0, 1})
      if (n_to_try_[way] > 0) return --n_to_try_[way], way;
    return best_;
  }

  // Whether took() wants to know.
  bool asks() const { return n_to_see_[0] > 0 || n_to_see_[1] > 0; }
  // True: that was the last try, and both costs are known now.
  bool took(int way, double cost) {
    if (n_to_see_[way] == 0) return false;
    // The first few that come another way than those before them meet other caches (a ring whose
    // lines nobody has read of late takes half the time), and any one may be interrupted: the best
    // of the later half is what counts.
    cost_[way] = 2 * n_to_see_[way] >= n_tries_ ? cost : std::min(cost_[way], cost);
    --n_to_see_[way];
    return !asks();
  }
  double cost(int way) const { return cost_[way]; }
  void set_best(int way) { best_ = way; }

 private:
  // The way that is not best costs up to ten times as much: tried this rarely, 5 % on average. At
  // first more often: a young process meets cold pages and clocks.
  static constexpr std::int64_t kLookSoon = 64, kLookAgain = 1024;

  int n_tries_ = 0, n_to_try_[2] = {0, 0}, n_to_see_[2] = {0, 0};
  double cost_[2] = {0, 0};  // of the last trial
  int best_ = 0;
  std::int64_t n_until_trial_ = 0, period_ = kLookSoon;
};

// By size, judged by what it takes here. Way: an enumeration with the values 0 and 1.
template <class Way>
class FasterWay {
 public:
  Way choose(std::uint64_t n_bytes) {
    const int size = size_class(n_bytes);
    return static_cast<Way>(trials_[size].next(size == kSizeClasses - 1));
  }
  void took(Way way, std::uint64_t n_bytes, std::int64_t ns) {
    WayTrial& trial = trials_[size_class(n_bytes)];
    if (trial.took(static_cast<int>(way), static_cast<double>(ns) / static_cast<double>(n_bytes)))
      trial.set_best(trial.cost(1) < trial.cost(0));
  }

 private:
  WayTrial trials_[kSizeClasses];
};

}  // namespace rlx
