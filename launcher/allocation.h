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

// One host as it was named; nothing of it is resolved.
struct HostEntry {
  std::string name;    // without user, port and slots
  std::string user;    // for ssh; "": the usual one
  int port = 0;        // for ssh; 0: the usual one
  int slots = 0;       // 0: nobody said, its cores count
  int max_slots = 0;   // hard cap, 0: none
  std::string source;  // who said the slots (the host, if nobody did): "--host", "hosts.txt:3"
};

// Who gave the hosts, and so how daemons are best started there.
enum class Manager { kNone, kSlurm, kPbs, kLsf, kSge, kFlux };
std::string_view name_of(Manager manager);

struct Allocation {
  Manager manager = Manager::kNone;
  std::string source;            // "this host", "--host", "host file x", "Slurm job 17"
  std::vector<HostEntry> hosts;  // each once, in the order they were named
  // For each app the hosts it may use, as indexes; empty: all.
  std::vector<std::vector<std::uint32_t>> of_app;
  std::vector<std::string> notes;  // worth telling with -v: what was chosen and why
};

// This host alone where nothing is said. `hostname` is this host's own.
Result<Allocation> read_allocation(const CommandLine& line, const Environment& environment,
                                   const std::string& hostname);

}  // namespace rlx::launcher
