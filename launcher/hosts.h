// SPDX-License-Identifier: MIT OR Apache-2.0
// Which host a name means, and how many ranks it may hold.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/command_line.h"
#include "launcher/map.h"

namespace rlx::launcher {

// "name", "user@name", "name:4", "[::1]:4"; several by comma.
struct HostWord {
  std::string name;
  int slots = 0;  // 0: not said
};
Result<std::vector<HostWord>> read_host_list(std::string_view list);

// gethostname as it is: never resolved, never shortened.
std::string own_hostname();
// Whether `name` is this machine, by name or by one of its addresses. Asks no name server.
bool is_this_host(std::string_view name, std::string_view hostname);

// The one host that ranks may run on, with its slots by the options and the machine.
Result<Host> only_host(const CommandLine& line, const std::string& hostname,
                       const Topology& topology);

}  // namespace rlx::launcher
