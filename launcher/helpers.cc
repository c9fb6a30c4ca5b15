// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/helpers.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "launcher/process.h"

namespace rlx::launcher {

Helpers::Helpers(Loop& loop) : loop_(loop) { sigemptyset(&signal_mask_); }

Helpers::~Helpers() {
  signal(SIGKILL);
  for (const auto& [pid, helper] : running_) waitpid(pid, nullptr, 0);
}

Result<pid_t> Helpers::start(const std::vector<std::string>& argv, const Environment& environment,
                             const int (&fds)[3], Ended ended) {
  const auto path = environment.get("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  const Program program = find_program(argv[0], "", path);
  if (program.exit_code != 0) return fail(Code::kSystem, program.problem);
  ProcessSpec spec;
  spec.file = program.file;
  spec.argv = &argv;
  spec.environment = &environment.entries();
  spec.stdin_fd = fds[0];
  spec.stdout_fd = fds[1];
  spec.stderr_fd = fds[2];
  spec.signal_mask = signal_mask_;
  StartBatch batch;
  const pid_t pid = batch.start(spec);
  if (pid < 0) return fail_errno("cannot start a process");
  for (const auto& trouble : batch.wait())
    if (trouble.failure.exit_code != 0) return fail(Code::kSystem, trouble.failure.problem);
  Helper& helper = running_[pid];
  helper.ended = std::move(ended);
  helper.pidfd = Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  helper.watch = loop_.on_readable(helper.pidfd.get(), [this, pid] { reap(pid); });
  return pid;
}

bool Helpers::reap(pid_t pid) {
  const auto helper = running_.find(pid);
  if (helper == running_.end()) return false;
  int status = 0;
  if (waitpid(pid, &status, WNOHANG) != pid) return true;
  const Ended ended = std::move(helper->second.ended);
  running_.erase(helper);
  ended(status);
  return true;
}

void Helpers::signal(int signal_number) const {
  for (const auto& [pid, helper] : running_) kill(-pid, signal_number);
}

std::vector<pid_t> Helpers::pids() const {
  std::vector<pid_t> out;
  for (const auto& [pid, helper] : running_) out.push_back(pid);
  return out;
}

}  // namespace rlx::launcher
