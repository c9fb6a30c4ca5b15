// SPDX-License-Identifier: MIT OR Apache-2.0
// Daemons that are not started one by one through pipes but call in: all by one srun, or each by
// hand.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/dial.h"
#include "launcher/helpers.h"
#include "launcher/node_codec.h"

namespace rlx::launcher {

struct MusterCalls {
  Listener::Arrived arrived;
  // No more will come: how srun ended, and what it said.
  std::function<void(const std::string& why)> ended;
};

class Muster {
 public:
  static Result<std::unique_ptr<Muster>> by_srun(Loop& loop, Helpers& helpers,
                                                 const Environment& environment,
                                                 const TreeSettings& settings,
                                                 const std::vector<TreeHost>& hosts,
                                                 MusterCalls calls);
  // Prints on standard error what to type on each host.
  static Result<std::unique_ptr<Muster>> by_hand(Loop& loop, const TreeSettings& settings,
                                                 const std::vector<TreeHost>& hosts,
                                                 MusterCalls calls);
  bool has_ended() const { return pid_ < 0; }
  // Tells srun to end, and then makes it.
  void end();

 private:
  Muster(Loop& loop, MusterCalls calls) : loop_(loop), calls_(std::move(calls)) {}
  Status listen();
  void read_errors();
  void ended(int wait_status, const std::string& hint);

  Loop& loop_;
  MusterCalls calls_;
  Secret secret_ = Secret::random();
  std::unique_ptr<Listener> listener_;
  pid_t pid_ = -1;
  Fd errors_;
  std::string said_;
  Watch errors_watch_, last_resort_;
};

// The command line of srun, one task on each host, and the environment it may see: variables of the
// user's own srun or sbatch must not change what ours does.
std::vector<std::string> srun_command(const TreeSettings& settings,
                                      const std::vector<TreeHost>& hosts);
Environment srun_environment(const Environment& own, const TreeSettings& settings);

}  // namespace rlx::launcher
