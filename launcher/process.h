// SPDX-License-Identifier: MIT OR Apache-2.0
// Starting one process, and finding processes that were started.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/fd.h"
#include "base/result.h"

namespace rlx::launcher {

// The file a command names: as it is when it holds a '/', relative to `wdir`, else the first in
// `path`.
struct Program {
  std::string file;
  int exit_code = 0;  // 126 or 127 when it cannot be run, as a shell says it
  std::string problem;
};
Program find_program(const std::string& command, const std::string& wdir, std::string_view path);

// What is written to one end can be read from the other; neither is inherited by programs.
Status make_pipe(Fd& reading, Fd& writing);

struct ProcessSpec {
  std::string file;
  const std::vector<std::string>* argv = nullptr;
  const std::vector<std::string>* environment = nullptr;
  std::string wdir;  // "": stay
  int stdin_fd = 0, stdout_fd = 1, stderr_fd = 2;
  bool owns_terminal = false;  // standard input becomes its controlling terminal
  int kept_fd = -1;            // stays open under its own number
  const CpuSet* cpus = nullptr;
  sigset_t signal_mask;          // of the new process
  bool ignores_sigpipe = false;  // as rlxrun itself was started
};

struct StartFailure {
  int exit_code = 0;  // 126, 127 or 1
  std::string problem;
};

// Starts several processes at once: each becomes its program while the next is being made, so that
// a busy machine does not make us wait for each in turn.
class StartBatch {
 public:
  StartBatch();
  // Each in a session of its own; it dies with the calling thread. -1 with errno: no process was
  // made.
  pid_t start(const ProcessSpec& spec);

  struct Trouble {
    pid_t pid = -1;
    int bind_error = 0;    // binding may fail where starting does not (a container that forbids it)
    StartFailure failure;  // exit_code 0: it runs; else it has ended and is reaped
  };
  // Returns when each has become its program or failed, with those that have something to tell.
  std::vector<Trouble> wait();

 private:
  struct Child {
    pid_t pid;
    std::string file, wdir;
  };
  std::vector<Child> children_;
  Fd reports_, report_;
};

// All descendants of this process but `except` and those below them. Complete only in a child
// subreaper.
std::vector<pid_t> descendants(const std::vector<pid_t>& except);
// All processes of this user that carry each of these NAME=value in the environment they were
// started with, or belong to one of `sessions`.
std::vector<pid_t> find_marked(const std::vector<std::string>& entries,
                               const std::vector<pid_t>& sessions);

}  // namespace rlx::launcher
