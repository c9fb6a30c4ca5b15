// SPDX-License-Identifier: MIT OR Apache-2.0
// From the command line to the description of a job that nodes can start, and how it reads in
// print.
#pragma once

#include <string>
#include <vector>

#include "launcher/command_line.h"
#include "launcher/environment.h"
#include "launcher/map.h"
#include "launcher/node.h"

namespace rlx::launcher {

struct Plan {
  std::vector<Host> hosts;
  std::vector<int> app_sizes;
  Mapping mapping;
};
Result<Plan> make_plan(const CommandLine& line, std::vector<Host> hosts);

// What a job needs beside the plan.
struct JobRequest {
  std::uint32_t number = 0;
  std::string name, id;
  std::vector<AppSpec> apps;  // without n_ranks
  OutputSpec output;
};
// Without MASTER_ADDR and MASTER_PORT.
JobSpec make_job(JobRequest request, const Plan& plan);

// Environments of the apps: the launcher's own with each app's edits. `notes` gets what was asked
// in vain.
std::vector<AppSpec> make_apps(const CommandLine& line, const Environment& own,
                               std::vector<std::string>& notes);

std::string bindings_text(const Plan& plan);
std::string map_text(const Plan& plan, const std::vector<AppLine>& apps);
std::string allocation_text(const Plan& plan);
std::string topology_text(const Host& host);

// A port that is free on this host now.
int free_port();
std::string random_id();

}  // namespace rlx::launcher
