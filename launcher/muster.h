// SPDX-License-Identifier: MIT OR Apache-2.0
// Daemons that are not started one by one through pipes but call in: all by one command of a
// resource manager, or each by hand.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/dial.h"
#include "launcher/helpers.h"
#include "launcher/node_codec.h"
#include "launcher/step.h"

namespace rlx::launcher {

struct MusterCalls {
  ListenerCalls daemons;
  // No more will come: how the command ended, and what it said.
  std::function<void(const std::string& why)> ended;
};

class Muster {
 public:
  static Result<std::unique_ptr<Muster>> by_step(Loop& loop, Helpers& helpers, Step step,
                                                 const TreeSettings& settings, MusterCalls calls);
  // Prints on standard error what to type on each host.
  static Result<std::unique_ptr<Muster>> by_hand(Loop& loop, const TreeSettings& settings,
                                                 const std::vector<TreeHost>& hosts,
                                                 MusterCalls calls);
  bool has_ended() const { return pid_ < 0; }
  // What the command says from now on is no reason not to start.
  void all_are_here() { step_.fatal.clear(); }
  // Tells the command to end, and then makes it.
  void end();

 private:
  Muster(Loop& loop, MusterCalls calls) : loop_(loop), calls_(std::move(calls)) {}
  Status listen();
  void read_errors();
  void ended(int wait_status);

  Loop& loop_;
  MusterCalls calls_;
  Secret secret_ = Secret::random();
  std::unique_ptr<Listener> listener_;
  Step step_;
  pid_t pid_ = -1;
  Fd errors_;
  std::string said_;
  Watch errors_watch_, last_resort_;
};

}  // namespace rlx::launcher
