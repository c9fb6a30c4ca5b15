// SPDX-License-Identifier: MIT OR Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/step.h"

namespace rlx::launcher {
namespace {

// Input variables of srun: each is an option that was meant for another srun.
constexpr const char* kSrunInputs[] = {"SLURM_NTASKS*",
                                       "SLURM_NPROCS",
                                       "SLURM_TASKS_PER_NODE",
                                       "SLURM_CPU_BIND*",
                                       "SLURM_CPUS_PER_TASK",
                                       "SRUN_CPUS_PER_TASK",
                                       "SLURM_MPI_TYPE",
                                       "SLURM_EXACT",
                                       "SLURM_EXCLUSIVE",
                                       "SLURM_DISTRIBUTION",
                                       "SLURM_HINT",
                                       "SLURM_GPUS_PER_TASK",
                                       "SLURM_GPU_BIND",
                                       "SLURM_TRES_PER_TASK",
                                       "SLURM_MEM_PER_*",
                                       "SLURM_OPEN_MODE",
                                       "SLURM_STDINMODE",
                                       "SLURM_STDOUTMODE",
                                       "SLURM_STDERRMODE",
                                       "SLURM_LABELIO",
                                       "SLURM_UNBUFFEREDIO",
                                       "SLURM_KILL_BAD_EXIT",
                                       "SLURM_THREADS_PER_CORE",
                                       "SLURM_WAIT",
                                       "SLURM_NO_KILL",
                                       "SLURM_IMMEDIATE",
                                       "SLURM_THREADS",
                                       "SLURM_PROLOG",
                                       "SLURM_EPILOG",
                                       "SLURM_MULTI_PROG",
                                       "SLURM_WORKING_DIR",
                                       "PMIX_*",
                                       "PRTE_*"};

}  // namespace

Step srun_step(const TreeSettings& settings, const std::vector<TreeHost>& hosts,
               const Environment& own) {
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  Step step;
  step.name = "srun";
  step.command = {"srun",
                  fmt::format("--nodes={}", hosts.size()),
                  fmt::format("--ntasks={}", hosts.size()),
                  "--ntasks-per-node=1",
                  fmt::format("--nodelist={}", fmt::join(names, ",")),
                  "--overlap",
                  "--mpi=none",
                  "--cpu-bind=none",
                  settings.outlives_hosts ? "--kill-on-bad-exit=0" : "--kill-on-bad-exit=1",
                  "--export=ALL",
                  "--quiet",
                  settings.program,
                  "--daemon=dial"};
  if (settings.outlives_hosts) {
    step.command.insert(step.command.begin() + 1, {"--no-kill", "--wait=0"});
    step.fatal = {"xited with exit code", "aunch failed"};  // which does not end srun then
  }
  step.environment = own;
  for (const char* name : kSrunInputs) step.environment.unset(name);
  // Said for every step of a cluster that binds nothing, which we do not ask it to.
  step.noise = "lacks support for cpu binding";
  step.no_job = {"confirm allocation", "nvalid job id", "has expired", "ontact slurm controller",
                 "already completing"};
  step.way_out = fmt::format(
      "; --rm none takes no notice of the variables of Slurm job {}, then --host names hosts",
      own.get("SLURM_JOB_ID").value_or("?"));
  return step;
}

}  // namespace rlx::launcher
