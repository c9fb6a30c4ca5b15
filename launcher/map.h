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
#include "launcher/gpus.h"

namespace rlx::launcher {

struct Host {
  std::string name;
  int slots = 1;
  std::string slots_source;     // "2 cores", "--host", for messages
  bool slots_promised = false;  // somebody named the host: more ranks need --oversubscribe
  Topology topology;
  int max_slots = 0;  // not even --oversubscribe starts more ranks; 0: no such cap
  GpuSet gpus = {};
  int ranks_there = 0;  // that run already: of the job that spawns another one
};

struct Place {
  std::uint32_t host = 0;
  std::uint32_t app = 0;
  std::uint32_t local_rank = 0;
  CpuSet cpus = {};                      // empty: not bound
  std::uint32_t n_cores = 0;             // that these cpus belong to
  std::vector<std::uint32_t> gpus = {};  // of the host's, for this rank; it may see them all
};

struct Mapping {
  std::vector<Place> places;  // index is the rank
  bool oversubscribed = false;
  std::string note;  // what is worth telling, or empty
};

// Hosts as they were named, by index, repeats kept: for all apps and for each (empty: all hosts).
struct NamedHosts {
  std::vector<std::uint32_t> mentions;
  std::vector<std::vector<std::uint32_t>> of_app;
};

// What asks for things that exclude each other.
Status check_map_options(const MapOptions& options);
// Ranks each app gets; those that did not say get what the mapping offers.
Result<std::vector<int>> count_ranks(const std::vector<AppLine>& apps, const MapOptions& options,
                                     std::span<const Host> hosts, const NamedHosts& named = {});
Result<Mapping> map_ranks(const std::vector<int>& app_sizes, const MapOptions& options,
                          std::span<const Host> hosts, const NamedHosts& named = {});

}  // namespace rlx::launcher
