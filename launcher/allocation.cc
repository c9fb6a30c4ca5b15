// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/allocation.h"

#include <algorithm>

#include "launcher/hosts.h"

namespace rlx::launcher {
namespace {

// The index of a host, which is added if it is new. A host named again adds its slots.
std::uint32_t add(std::vector<HostEntry>& hosts, const HostEntry& entry) {
  const auto same = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const HostEntry& host) { return host.name == entry.name; });
  if (same == hosts.end()) {
    hosts.push_back(entry);
    return static_cast<std::uint32_t>(hosts.size() - 1);
  }
  // "a,a" is two slots, as for other launchers; "a" alone asks the host.
  same->slots = std::max(same->slots, 1) + std::max(entry.slots, 1);
  return static_cast<std::uint32_t>(same - hosts.begin());
}

}  // namespace

std::string_view name_of(Manager manager) {
  constexpr std::string_view kNames[] = {"none", "slurm", "pbs", "lsf", "sge", "flux"};
  return kNames[static_cast<std::size_t>(manager)];
}

Result<Allocation> read_allocation(const CommandLine& line, const Environment&,
                                   const std::string& hostname) {
  Allocation allocation;
  allocation.source = "this host";
  for (const auto& app : line.apps) {
    auto& indexes = allocation.of_app.emplace_back();
    if (app.hosts.empty()) continue;
    allocation.source = "--host";
    RLX_TRY_ASSIGN(const auto entries, read_host_list(app.hosts));
    for (const auto& entry : entries) {
      const auto index = add(allocation.hosts, entry);
      if (std::find(indexes.begin(), indexes.end(), index) == indexes.end())
        indexes.push_back(index);
    }
  }
  if (allocation.hosts.empty()) allocation.hosts.push_back({hostname, "", 0, 0, 0, "this host"});
  return allocation;
}

}  // namespace rlx::launcher
