// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/described.h"

#include <fmt/format.h>

#include <algorithm>

namespace rlx::launcher {

Result<std::vector<NodeFacts>> described_facts(const CommandLine& line,
                                               const Allocation& allocation, const NodeFacts& own,
                                               Topologies& topologies) {
  if (!line.dry_run)
    return fail(Code::kInvalid, "--topo-file is for --dry-run: ranks run on the real machines");
  for (const auto& [name, file] : line.topology_files)
    if (!name.empty() &&
        std::none_of(allocation.hosts.begin(), allocation.hosts.end(),
                     [&, &wanted = name](const HostEntry& host) { return host.name == wanted; }))
      return fail(Code::kInvalid,
                  fmt::format("--topo-file {}={}: there is no such host in this job", name, file));
  std::map<std::string, NodeFacts> of_file;
  std::vector<NodeFacts> facts;
  for (const auto& host : allocation.hosts) {
    auto file = line.topology_files.find(host.name);
    if (file == line.topology_files.end()) file = line.topology_files.find("");
    if (file == line.topology_files.end()) {
      if (!host.here)
        return fail(Code::kInvalid, fmt::format("--dry-run: host '{}' has no --topo-file; add "
                                                "--topo-file {}=FILE or a FILE for all",
                                                host.name, host.name));
      facts.push_back(own);
      continue;
    }
    auto known = of_file.find(file->second);
    if (known == of_file.end()) {
      TopologySource source;
      source.xml_file = file->second;
      source.devices = true;
      RLX_TRY_ASSIGN(const auto topology, Topology::load(source));
      topologies.add(topology);
      NodeFacts read = own;
      read.signature = topology.signature();
      read.allowed = topology.allowed();
      read.quota = 0;
      read.gpus.clear();
      known = of_file.emplace(file->second, std::move(read)).first;
    }
    facts.push_back(known->second);
    facts.back().hostname = host.name;
  }
  return facts;
}

}  // namespace rlx::launcher
