// SPDX-License-Identifier: MIT OR Apache-2.0
// What the load has been lately, separately for every phase (prefill, decode, training ...): drift
// between phases is larger than within, so one mixed estimate fits neither.
#pragma once

#include <deque>

#include "sched/types.h"

namespace rlx::sched {

class LoadStats {
 public:
  struct Options {
    int phases = 1;
    int steps_per_window = 100;
    int windows = 4;     // the latest kept, a phase
    double decay = 0.9;  // of the average, a step
  };
  LoadStats(int layers, int experts, const Options& options);

  // Tokens per expert of one step, layers x experts, summed over all ranks. Refuses negative
  // counts.
  Status add(int phase, std::span<const int64_t> counts);

  // The latest full windows, oldest first (the running one if none is full yet); kAgain before any
  // step.
  Result<Loads> windows(int phase) const;
  // The exponential average of the counts of a step; kAgain before any step.
  Result<Loads> average(int phase) const;

 private:
  struct Phase {
    std::deque<std::vector<double>> full;
    std::vector<double> running, average;
    int steps = 0;      // in `running`
    double weight = 0;  // of `average`: removes its bias towards zero
  };
  Status check_phase(int phase) const;

  int layers_, experts_;
  Options options_;
  std::vector<Phase> phases_;
};

}  // namespace rlx::sched
