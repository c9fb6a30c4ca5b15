// SPDX-License-Identifier: MIT OR Apache-2.0
// The command of a resource manager that starts a daemon on each of some hosts, hands its own
// standard input to all of them, and ends when they have. Daemons call in then (muster.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/environment.h"
#include "launcher/node_codec.h"

namespace rlx::launcher {

struct Step {
  std::string name;  // for messages
  std::vector<std::string> command;
  Environment environment;  // what it may see
  std::string_view noise;   // a line with this is not worth telling; "": all are
  // It says one of these before all daemons are there, where one cannot be though others can: the
  // job is not started then.
  std::vector<std::string_view> fatal;
  // It says one of these where it knows nothing of the job; then `way_out` is told too.
  std::vector<std::string_view> no_job;
  std::string way_out;
};

// One task on each host. Variables of the user's own srun or sbatch must not change what ours does.
Step srun_step(const TreeSettings& settings, const std::vector<TreeHost>& hosts,
               const Environment& own);
// The hosts' flux_rank are known. flux exec cannot carry a link itself: it shows output only up to
// the first NUL.
Step flux_step(const TreeSettings& settings, const std::vector<TreeHost>& hosts,
               const Environment& own);

}  // namespace rlx::launcher
