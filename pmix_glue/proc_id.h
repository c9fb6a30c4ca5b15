// SPDX-License-Identifier: MIT OR Apache-2.0
// How a process is named across jobs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace rlx::pmix {

// kAllRanks stands for every rank of the job.
inline constexpr uint32_t kAllRanks = UINT32_MAX;

struct ProcId {
  std::string job;
  uint32_t rank = kAllRanks;
  friend auto operator<=>(const ProcId&, const ProcId&) = default;
};

}  // namespace rlx::pmix
