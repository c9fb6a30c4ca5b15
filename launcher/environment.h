// SPDX-License-Identifier: MIT OR Apache-2.0
// The environment a rank is started with, as data. The process's own environment is read once, at
// start.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/command_line.h"

namespace rlx::launcher {

class Environment {
 public:
  Environment() = default;
  explicit Environment(std::vector<std::string> entries) : entries_(std::move(entries)) {}
  static Environment of_this_process();

  std::optional<std::string> get(std::string_view name) const;
  void set(std::string_view name, std::string_view value);
  void set_default(std::string_view name, std::string_view value);
  void unset(std::string_view pattern);
  // Names that match a pattern with * ? [..].
  std::vector<std::string> matching(const std::string& pattern) const;

  const std::vector<std::string>& entries() const { return entries_; }
  std::vector<std::string> take() && { return std::move(entries_); }

 private:
  std::vector<std::string> entries_;  // "NAME=value"
};

// Applies -x in order, only what removes everything first; returns the names that were to be passed
// but do not exist.
std::vector<std::string> apply_edits(Environment& environment,
                                     const std::vector<EnvironmentEdit>& edits);

// A rank is no task of the step of Slurm or Flux that we are one of: which of its tasks we are
// would be the same for all ranks of a node, and programs that look there (PyTorch Lightning, Open
// MPI) would take it for their rank. What the user `chose` stays.
void leave_task(Environment& environment, const std::vector<std::string>& chosen);

// What describes the host, the login or the step that rlxrun was started in (HOSTNAME, SSH_*, the
// GPUs it may use) gets the values that `own`, the environment of a daemon, has for them, or goes;
// so does a TMPDIR that is not here. What the user `chose` stays.
void move_to_this_host(Environment& environment, const Environment& own,
                       const std::vector<std::string>& chosen);

// Facts about one rank that programs and scripts look for.
struct RankFacts {
  std::uint32_t rank = 0, size = 1, local_rank = 0, local_size = 1, node = 0, n_nodes = 1;
  std::string job_id;
  int threads = 0;  // for OMP_NUM_THREADS; 0: leave it
};
void add_rank_variables(Environment& environment, const RankFacts& facts);
// What an rlxrun around us told this process as one of its ranks is not the user's.
void forget_outer_job(Environment& environment);
// MASTER_ADDR and MASTER_PORT unless the user set them.
void add_master(Environment& environment, std::string_view address, int port);

}  // namespace rlx::launcher
