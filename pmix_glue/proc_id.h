// SPDX-License-Identifier: MIT OR Apache-2.0
// How a process is named across jobs.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace rlx::pmix {

// kAllRanks stands for every rank of the job.
inline constexpr uint32_t kAllRanks = UINT32_MAX;

struct ProcId {
  std::string job;
  uint32_t rank = kAllRanks;
  friend auto operator<=>(const ProcId&, const ProcId&) = default;
};

// Whether `rank` is one of those that `set` stands for.
inline bool covers(const ProcId& set, const ProcId& rank) {
  return set.job == rank.job && (set.rank == kAllRanks || set.rank == rank.rank);
}
inline bool covers(const std::vector<ProcId>& sets, const ProcId& rank) {
  return std::any_of(sets.begin(), sets.end(),
                     [&](const ProcId& set) { return covers(set, rank); });
}

}  // namespace rlx::pmix
