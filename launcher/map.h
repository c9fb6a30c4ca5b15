// SPDX-License-Identifier: MIT OR Apache-2.0
// Which rank runs where: a pure function of what was asked for and what the hosts have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/topology.h"
#include "launcher/command_line.h"

namespace rlx::launcher {

struct Host {
  std::string name;
  int slots = 1;
  std::string slots_source;     // "2 cores", "--host", for messages
  bool slots_promised = false;  // somebody named the host: more ranks need --oversubscribe
  Topology topology;
  int max_slots = 0;  // not even --oversubscribe starts more ranks; 0: no such cap
};

struct Place {
  std::uint32_t host = 0;
  std::uint32_t app = 0;
  std::uint32_t local_rank = 0;
  CpuSet cpus;  // empty: not bound
};

struct Mapping {
  std::vector<Place> places;  // index is the rank
  bool oversubscribed = false;
  std::string note;  // one sentence worth telling, or empty
};

// Ranks each app gets; those that did not say get what the mapping offers.
Result<std::vector<int>> count_ranks(const std::vector<AppLine>& apps, const MapOptions& options,
                                     std::span<const Host> hosts);
Result<Mapping> map_ranks(const std::vector<int>& app_sizes, const MapOptions& options,
                          std::span<const Host> hosts);

// Cuts `set` into n parts of whole cores, as equal as can be and inside one package, NUMA node and
// L3 wherever that is possible. Requires 1 <= n <= cores in `set`.
std::vector<CpuSet> split_cores(const Topology& topology, const CpuSet& set, int n);

}  // namespace rlx::launcher
