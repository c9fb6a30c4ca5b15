// SPDX-License-Identifier: MIT OR Apache-2.0
// A small process that outlives a launcher killed with SIGKILL: it then ends what the launcher had
// started and removes its files. It also kills a daemon that does not leave though the link to its
// parent is gone, because it is stopped (SIGSTOP) or stuck.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/fd.h"

namespace rlx::launcher {

class Guard {
 public:
  // Before any thread exists. Where no process can be had, there is no guard, and nothing else
  // changes. `link`: by which a daemon hears its parent; the guard sees when it is hung up.
  static Guard start(int link = -1);
  Guard(Guard&&) = default;
  Guard& operator=(Guard&&) = delete;
  ~Guard();  // the launcher has cleaned up itself; waits until the process is gone
  // No process is left to be ended; ends ours while the launcher removes its files.
  void dismiss() const;

  void will_remove(const std::string& directory) const;
  void started_session(pid_t leader) const;
  // "NAME=value": processes of ours carry all these in their environment.
  void marked_by(std::string_view entry) const;
  // Not reported by waitpid(-1), and not counted among its children.
  pid_t pid() const { return pid_; }

 private:
  Guard(pid_t pid, Fd pipe) : pid_(pid), pipe_(std::move(pipe)) {}
  void tell(char what, std::string_view text) const;

  pid_t pid_ = -1;
  Fd pipe_;
};

}  // namespace rlx::launcher
