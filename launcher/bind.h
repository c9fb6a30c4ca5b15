// SPDX-License-Identifier: MIT OR Apache-2.0
// The second half of mapping: cpus and GPUs for the ranks of one host.
#pragma once

#include <vector>

#include "launcher/map.h"

namespace rlx::launcher {

// The cpus of each of a host's ranks, in the order of their local ranks, by the object each is
// mapped to; empty: not bound.
Result<std::vector<CpuSet>> bind_ranks(const Host& host, const MapOptions& options,
                                       const std::vector<std::uint32_t>& objects);
// As a rank file says.
Result<CpuSet> bind_by_line(const Host& host, const RankLine& line, const MapOptions& options);

// GPUs of each rank, by index into those of the host: near its cpus, and its own while there are
// enough. `shared` says whether there are not.
Result<std::vector<std::vector<std::uint32_t>>> choose_gpus(
    const Host& host, const MapOptions& options, const std::vector<std::uint32_t>& objects,
    const std::vector<CpuSet>& cpus, bool& shared);

// Cuts `set` into n parts of whole cores, as equal as can be and inside one package, NUMA node and
// L3 wherever that is possible. Requires 1 <= n <= cores in `set`.
std::vector<CpuSet> split_cores(const Topology& topology, const CpuSet& set, int n);

}  // namespace rlx::launcher
