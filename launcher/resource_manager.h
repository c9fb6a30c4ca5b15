// SPDX-License-Identifier: MIT OR Apache-2.0
// The hosts a resource manager gave this job, by its environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/allocation.h"
#include "launcher/environment.h"

namespace rlx::launcher {

struct ManagedHosts {
  Manager manager = Manager::kNone;
  std::string job;               // "Slurm job 17"
  std::string how;               // "SLURM_JOB_NODELIST=n[1-2]": where the hosts are from
  std::vector<HostEntry> hosts;  // repeats kept, as in PBS_NODEFILE
};

// Asks Slurm, PBS, LSF, Grid Engine and Flux, in this order, or only `wanted`; nothing where there
// is none. Flux is asked by its command. `notes` gets what was seen and not used, such as variables
// that leaked from another host's job.
Result<std::optional<ManagedHosts>> hosts_of_manager(std::optional<Manager> wanted,
                                                     const Environment& environment,
                                                     const std::string& hostname,
                                                     std::vector<std::string>& notes);

// Whether this process is, or is below, a task that Slurm started on this node: a batch script, a
// step, or the interactive step of salloc. It is then where the job's share of the node is: in its
// control group, with its GPUs in the environment. A shell that salloc itself started is not.
bool is_in_slurm_task(const Environment& environment);

// "2(x2),1" to 2 2 1, as Slurm counts tasks and cpus of nodes.
Result<std::vector<int>> read_slurm_counts(std::string_view text);

}  // namespace rlx::launcher
