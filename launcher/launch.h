// SPDX-License-Identifier: MIT OR Apache-2.0
// One launch: from a command line to the end of its job.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/topology.h"
#include "launcher/allocation.h"
#include "launcher/cluster.h"
#include "launcher/command_line.h"
#include "launcher/environment.h"
#include "launcher/head.h"
#include "launcher/node_facts.h"
#include "launcher/node_home.h"
#include "launcher/plan.h"

namespace rlx::launcher {

struct LaunchEnd {
  int exit_code = 0;
  int signal_number = 0;  // by which to end; 0: none
  bool may_restart = false;
  std::string without;  // hosts that it may then leave out, by comma
  bool awaits = false;  // a host that is not there, but needed
};

class Launch {
 public:
  Launch(CommandLine line, Environment environment)
      : line_(std::move(line)), environment_(std::move(environment)) {}
  // What can be known, and be wrong, before anything is started. kInvalid: the user's words.
  Status prepare();
  // Prints what is wrong itself.
  LaunchEnd run();

 private:
  using Facts = tl::expected<std::vector<NodeFacts>, std::vector<std::string>>;

  Status plan(std::span<const NodeFacts> facts);
  // What starts daemons: --launcher, or what fits the allocation.
  std::string launcher() const;
  bool is_left_to_srun() const;
  bool is_remote() const { return allocation_.hosts.size() > (local_ ? 1u : 0u); }
  Result<ClusterSetup> cluster_setup(const Guard& guard, const NodeSetup& node, Helpers& helpers);
  void judge_restart(LaunchEnd& end, const Cluster& cluster) const;
  bool can_do_without(const std::vector<std::uint32_t>& lost) const;
  void nodes_are_known(Head& head, const Cluster& cluster, Facts facts);
  void start(Head& head, const Cluster& cluster);
  void place(const Cluster& cluster, JobSpec& job) const;
  void stay_in_this_directory(std::vector<AppSpec>& apps, OutputSpec& output) const;
  // Worth telling of the plan and of what was asked in vain, also in a dry run.
  std::vector<std::string> notes() const;

  CommandLine line_;
  Environment environment_;
  std::string hostname_;
  std::optional<Topology> topology_;
  Topologies topologies_;  // of all nodes
  Allocation allocation_;
  std::optional<std::uint32_t> local_;  // this host among those of the allocation
  TreeSettings tree_;
  Directories directories_;
  Plan plan_;
  std::vector<AppSpec> apps_;  // with plan_
  std::vector<std::string> app_notes_;
  bool planned_ = false;
};

}  // namespace rlx::launcher
