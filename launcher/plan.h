// SPDX-License-Identifier: MIT OR Apache-2.0
// From the command line to the description of a job that nodes can start.
#pragma once

#include <string>
#include <vector>

#include "launcher/allocation.h"
#include "launcher/command_line.h"
#include "launcher/environment.h"
#include "launcher/map.h"
#include "launcher/node.h"

namespace rlx::launcher {

struct Plan {
  Manager manager = Manager::kNone;
  std::string source;  // who gave the hosts
  std::vector<Host> hosts;
  std::vector<int> app_sizes;
  Mapping mapping;
  bool ranks_see_own_gpus = false;  // and no others
  // GPU variables each app sets itself: they stay as they are.
  std::vector<std::vector<std::string>> own_gpu_variables;
};
// `hosts` are those of the allocation, in its order.
Result<Plan> make_plan(const CommandLine& line, std::vector<Host> hosts,
                       const Allocation& allocation = {});

// What a job needs beside the plan.
struct JobRequest {
  std::uint32_t number = 0;
  std::string name, id;
  std::vector<AppSpec> apps;  // without n_ranks
  OutputSpec output;
  int universe_size = 0;  // 0: the slots of all hosts
};
// Without MASTER_ADDR and MASTER_PORT.
JobSpec make_job(JobRequest request, const Plan& plan);

// Environments of the apps: the launcher's own with each app's edits. `notes` gets what was asked
// in vain.
std::vector<AppSpec> make_apps(const CommandLine& line, const Environment& own,
                               std::vector<std::string>& notes);

// A port that is free on this host now.
int free_port();
std::string random_id();

}  // namespace rlx::launcher
