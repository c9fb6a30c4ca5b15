// SPDX-License-Identifier: MIT OR Apache-2.0
// When to move: only if the imbalance is more than chance, and if the time it saves until the load
// changes again is more than the move costs.
#pragma once

#include <deque>
#include <string>

#include "sched/types.h"

namespace rlx::sched {

// How far above the mean (0.1: 10 %) the slowest rank of a perfectly balanced placement is expected
// to be by the chance of which experts the tokens of `load` chose. `load` in tokens, not averaged.
double sampling_noise(std::span<const double> load, std::span<const int32_t> placement,
                      const Cluster& cluster);

// Seconds that one token-expert pair costs the slowest rank: its arithmetic and its wire time, one
// after the other or (overlapped) the longer of the two.
struct TokenCost {
  double flop = 0, flop_per_second = 1;    // 6 * hidden * intermediate for a gated FFN
  double bytes = 0, bytes_per_second = 1;  // dispatch and combine
  bool overlapped = false;
  double seconds() const;
};

struct MoveCost {
  double bytes = 0;  // received by the busiest rank
  double bytes_per_second = 1;
  double overlap = 0;  // share of the transfer hidden behind steps, 0 .. 1
  double plan_seconds = 0, commit_seconds = 0;
  double seconds() const {
    return bytes / bytes_per_second * (1 - overlap) + plan_seconds + commit_seconds;
  }
};

struct Payback {
  bool move = false;
  double saved_per_step = 0;  // seconds, discounted
  double cost = 0;            // seconds
  double steps_to_pay = 0;    // infinite if nothing is saved
  std::string reason;         // one sentence with the figures
};

// What earlier moves taught: how much of a predicted gain arrives, how long a load lasts.
class Experience {
 public:
  double discount() const { return discount_; }  // starts at 0.7
  double horizon_steps() const;                  // running median; 1000 before the first change
  void saw_gain(double predicted, double delivered);
  void saw_change_after(double steps);

 private:
  double discount_ = 0.7;
  std::deque<double> lasted_;  // the latest few
};

struct Prospect {
  double tokens_saved =
      0;              // a step: sum over layers of (old peak - new peak), in token-expert pairs
  double excess = 0;  // old peak / mean - 1, of the worst layer
  double noise = 0;   // sampling_noise() of that layer
  double token_seconds = 0;
  double move_seconds = 0;
  double hysteresis = 0.3;  // saved time has to exceed the cost by this share
};

Payback weigh(const Prospect& prospect, double discount, double horizon_steps);
inline Payback weigh(const Prospect& prospect, const Experience& experience) {
  return weigh(prospect, experience.discount(), experience.horizon_steps());
}

}  // namespace rlx::sched
