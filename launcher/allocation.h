// SPDX-License-Identifier: MIT OR Apache-2.0
// Which hosts a job may use, and who said so: the options, a file, or a resource manager.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/command_line.h"
#include "launcher/environment.h"

namespace rlx::launcher {

inline constexpr int kMaxSlots = 1 << 16;  // of one host that somebody may write

// One host as it was named; nothing of it is resolved.
struct HostEntry {
  std::string name;            // without user, port and slots
  std::string user;            // for ssh; "": the usual one
  int port = 0;                // for ssh; 0: the usual one
  int flux_rank = -1;          // for flux exec; -1: it is not Flux's
  int slots = 0;               // 0: nobody said, its cores count
  int max_slots = 0;           // hard cap, 0: none
  bool at_most_cores = false;  // the slots count hardware threads: no more than there are cores
  bool here = false;           // it is this machine
  std::string source;          // who said the slots, or the host if nobody did: "hosts.txt:3"
};

struct Allocation {
  Manager manager = Manager::kNone;  // how daemons are best started
  std::string source;                // "this host", "--host", "hosts.txt", "Slurm job 17"
  bool named = false;                // somebody named hosts: slots are a promise
  std::vector<HostEntry> hosts;      // each once, in the order they were named
  // Indexes of hosts as they were named, repeats kept: for --map-by seq.
  std::vector<std::uint32_t> mentions;
  // The same for the hosts each app may use; empty: all.
  std::vector<std::vector<std::uint32_t>> of_app;
  std::vector<std::string> notes;     // for -v: what was chosen and why
  std::vector<std::string> warnings;  // what was asked for in vain
};

// This host alone where nothing is said. `hostname` is this host's own.
Result<Allocation> read_allocation(const CommandLine& line, const Environment& environment,
                                   const std::string& hostname);

// Without these hosts, by comma.
void leave_out(Allocation& allocation, std::string_view names);

// Allocation::of_app for other apps within hosts that are running already, as for ranks that spawn.
Result<std::vector<std::vector<std::uint32_t>>> hosts_of_apps(const std::vector<AppLine>& apps,
                                                              const Allocation& allocation,
                                                              const std::string& hostname);

}  // namespace rlx::launcher
