// SPDX-License-Identifier: MIT OR Apache-2.0
// A launcher reduced to what tests of the server need: it starts the ranks of a job on one or more
// nodes, serves them, reaps them, and leaves neither processes nor files. Each node is a process
// with a PMIx server (mini_node.h); "n0", "n1", ... are their names when there are several.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pmix_glue/server.h"

namespace rlx::test {

struct HostedOptions {
  // The parent of each node in the tree, kRoot or a node before it; ranks go to nodes in turn.
  // Empty: one node without a tree.
  std::vector<uint32_t> parents;
  // Looked at as `until`: a node to be killed, or -1.
  std::function<int(const std::string& output)> lose;
  bool kill_on_failure = true;             // as a launcher does
  std::optional<pmix::Protocol> protocol;  // otherwise by what the program is linked with
  std::vector<std::string> environment;    // added to each rank's
  std::string cpus;                        // of each rank
  int timeout_s = 60;
  // Looked at with what the ranks have written so far; true ends the job by SIGKILL.
  std::function<bool(const std::string& output)> until;
  std::string dir;          // for files, kept; empty: one of our own, removed
  bool die_with_us = true;  // ranks are killed when this process is
};

struct RankOutcome {
  int status = 0;  // as a shell says it: exit code, or 128 and the signal
  pmix::RankState state;
};

struct Outcome {
  bool finished = false;  // within the time limit
  std::map<pmix::ProcId, RankOutcome> ranks;
  std::string job;     // the first one's name
  std::string output;  // of all ranks, both channels
  std::vector<std::string> logged;
  std::optional<int> abort_status;
  std::string abort_message;
  int n_spawned = 0;

  int status(uint32_t rank) const;  // of the first job; -1 when there is no such rank
  bool all_good() const;            // every rank of every job ended with 0
  std::string text() const;         // for a test's message
};

// `apps`: argv and number of ranks of each. Runs in a process of its own.
Outcome host_job(const std::vector<std::pair<std::vector<std::string>, uint32_t>>& apps,
                 const HostedOptions& options = {});

std::string read_file(const std::string& path);

}  // namespace rlx::test
