// SPDX-License-Identifier: MIT OR Apache-2.0
// Lists of hosts as they are typed, and which of them is this one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/allocation.h"

namespace rlx::launcher {

// Whether its name and user are no more than that for ssh, a shell and a file system: no option, no
// metacharacter, no path. Whoever reads hosts, from wherever, asks this.
Status check_names(const HostEntry& host);

// "name", "user@name", "name:4", "n[01-04]:4", "[::1]:4"; several by comma. Repeats are kept.
Result<std::vector<HostEntry>> read_host_list(std::string_view list);

// gethostname as it is: never resolved, never shortened.
std::string own_hostname();
// Whether these are one name, with or without its domain.
bool is_same_name(std::string_view a, std::string_view b);
// Whether `name` is this machine, by name or by one of its addresses. Asks no name server.
bool is_this_host(std::string_view name, std::string_view hostname);

// For a message: "a, b, c and 5 more".
std::string some_of(const std::vector<std::string>& names);

}  // namespace rlx::launcher
