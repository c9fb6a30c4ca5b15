// SPDX-License-Identifier: MIT OR Apache-2.0
// Any text as a list of hosts, a host file, a rank file, a manager's variable, a list of GPUs or
// the facts of a node: refused, or within bounds.
// Sources: launcher/host_ranges.cc launcher/host_file.cc launcher/hosts.cc launcher/host_table.cc
// Sources: launcher/resource_manager.cc launcher/allocation.cc launcher/option_values.cc
// Sources: launcher/environment.cc launcher/node_facts.cc base/topology.cc base/cpu_set.cc
// Sources: base/cgroup.cc base/file.cc base/result.cc launcher/rank_file.cc launcher/gpus.cc
// Sources: launcher/gpu_probe.cc launcher/process.cc base/network.cc base/words.cc
// Sources: launcher/flux.cc launcher/agent.cc launcher/helpers.cc launcher/loop.cc
// Sources: launcher/shell_words.cc
#include <cstdint>
#include <cstdlib>

#include "launcher/host_file.h"
#include "launcher/host_ranges.h"
#include "launcher/hosts.h"
#include "launcher/node_facts.h"
#include "launcher/rank_file.h"
#include "launcher/resource_manager.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

void check(const std::vector<HostEntry>& hosts) {
  if (hosts.empty() || hosts.size() > kMaxHosts) std::abort();
  for (const auto& host : hosts)
    if (!check_names(host) || host.slots < 0 || host.slots > kMaxSlots) std::abort();
}

void read_allocation_of(const CommandLine& line, std::vector<std::string> environment) {
  const auto allocation = read_allocation(line, Environment(std::move(environment)), "box");
  if (!allocation) return;
  check(allocation->hosts);
  for (const auto index : allocation->mentions)
    if (index >= allocation->hosts.size()) std::abort();
  for (const auto& mentions : allocation->of_app)
    for (const auto index : mentions)
      if (index >= allocation->hosts.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  CommandLine line;
  line.apps.resize(1);
  switch (data[0] % 8) {
    case 0:
      if (const auto hosts = read_host_list(text)) check(*hosts);
      break;
    case 1:
      if (const auto hosts = parse_host_file(text, "f")) check(*hosts);
      break;
    case 2:
      if (const auto facts = decode_node_facts(text))
        if (decode_node_facts(encode(*facts))->hostname != facts->hostname) std::abort();
      break;
    case 3: {  // the first line is the list of nodes, the second the counts
      const auto end = text.find('\n');
      read_allocation_of(
          line,
          {"SLURM_JOB_ID=1", "SLURM_NTASKS=2", "SLURM_JOB_NODELIST=box," + text.substr(0, end),
           "SLURM_TASKS_PER_NODE=" + (end == std::string::npos ? "" : text.substr(end + 1))});
      break;
    }
    case 4:
      read_allocation_of(line, {"LSB_MCPU_HOSTS=" + text});
      break;
    case 5:
      if (const auto ranks = parse_rank_file(text, "f"))
        for (const auto& rank : *ranks)
          if (rank.host.empty()) std::abort();
      break;
    case 6: {  // what is shown to a rank is one of the entries
      const GpuSet set = visible_gpus({}, {}, {"CUDA_VISIBLE_DEVICES=" + text});
      for (const auto& list : set.lists)
        if (!list.is_relative && list.entries.size() != set.gpus.size()) std::abort();
      if (!set.gpus.empty() && show_only(set, {0}).empty()) std::abort();
      break;
    }
    default:
      line.apps[0].hosts = text;
      read_allocation_of(line, {"LSB_MCPU_HOSTS=a 2 b 1 n1 4 n2 4"});
  }
  return 0;
}
