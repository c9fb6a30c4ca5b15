// SPDX-License-Identifier: MIT OR Apache-2.0
// The first half of mapping: a host, and an object of it, for each rank.
#pragma once

#include "launcher/map.h"

namespace rlx::launcher {

struct Seat {
  std::uint32_t host = 0;
  std::uint32_t object = 0;  // index into objects_of(host)
};

// cpus of the host that ranks may use.
CpuSet usable_cpus(const Host& host, const MapOptions& options);
// The parts of a set that each object of one kind holds; those left empty are dropped.
std::vector<CpuSet> parts_of(const Topology& topology, Locality locality, const CpuSet& within);
// The objects that ranks are mapped to, in order: all that is usable where ranks are mapped to
// hosts. With GPUs each rank's share of them is one object, whose cpus are those near them.
std::vector<CpuSet> objects_of(const Host& host, const MapOptions& options);
// Ranks that find room before any is asked to share.
int room_on(const Host& host, const MapOptions& options);

// Seats of each app, in the order of its ranks.
Result<std::vector<std::vector<Seat>>> choose_seats(const std::vector<int>& app_sizes,
                                                    const MapOptions& options,
                                                    std::span<const Host> hosts,
                                                    const NamedHosts& named);

}  // namespace rlx::launcher
