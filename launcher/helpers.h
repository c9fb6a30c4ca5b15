// SPDX-License-Identifier: MIT OR Apache-2.0
// Processes that serve the launcher itself (ssh, srun): children of ours that are no ranks, and
// that LocalNode, which adopts and ends everything else below this process, leaves alone.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/environment.h"
#include "launcher/loop.h"

namespace rlx::launcher {

class Helpers {
 public:
  using Ended = std::function<void(int wait_status)>;

  explicit Helpers(Loop& loop);
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;
  ~Helpers();  // kills what is left

  // In a session of its own, with these three descriptors, dead with this process. `ended` is
  // called from the loop.
  Result<pid_t> start(const std::vector<std::string>& argv, const Environment& environment,
                      const int (&fds)[3], Ended ended);
  void signal(int signal_number) const;  // to all
  bool empty() const { return running_.empty(); }
  std::vector<pid_t> pids() const;
  // For whoever waits for any child: reaps this one if it is ours and has ended.
  bool reap(pid_t pid);

 private:
  struct Helper {
    Fd pidfd;
    Watch watch;
    Ended ended;
  };
  Loop& loop_;
  sigset_t signal_mask_;
  std::map<pid_t, Helper> running_;
};

}  // namespace rlx::launcher
