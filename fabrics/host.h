// SPDX-License-Identifier: MIT OR Apache-2.0
// Facts about the host a rank runs on, which its peers need: can we share memory, do we share
// cores?
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/cpu_set.h"

namespace rlx {

// Equal for two processes that can open each other's files under /proc: boot id, pid namespace,
// uid. No spaces in it. Empty if /proc does not tell.
std::string host_identity();

// The cores this thread may use; its text form goes into the blob.
CpuSet cpus_of_this_thread();

// How many ranks want each core that `mine` may use, on average, if every rank spreads evenly over
// the cores it may use. Up to 1: every rank has a core. `all` are the host's ranks, ours included.
double ranks_per_core(const CpuSet& mine, std::span<const CpuSet> all);

// Bytes that can still be taken without making the kernel kill somebody: of the machine, and of our
// control group and all above it.
std::uint64_t available_memory();

// The largest cache of a core; nothing where the kernel does not tell.
std::optional<std::uint64_t> last_level_cache_bytes();

}  // namespace rlx
