// SPDX-License-Identifier: MIT OR Apache-2.0
// How the tokens of one batch are split over the replicas of each expert.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

struct Split {
  std::vector<double> tokens;  // by slot; the slots of an expert sum to its load
  double peak = 0;             // time of the slowest rank
};

// The split whose slowest rank is as fast as any split can make it. Microseconds for 32 ranks:
// cheap enough for every batch. Requires: every expert with load holds a slot.
Split split_tokens(std::span<const double> load, std::span<const int32_t> placement,
                   const Cluster& cluster, const TimeModel& model = {});

// The same in whole tokens: the slots of an expert sum to its count exactly. Counts up to 2^63 - 1.
std::vector<int64_t> split_counts(std::span<const int64_t> counts,
                                  std::span<const int32_t> placement, const Cluster& cluster,
                                  const TimeModel& model = {});

}  // namespace rlx::sched
