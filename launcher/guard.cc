// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <ctime>
#include <filesystem>
#include <vector>

#include "launcher/process.h"

namespace rlx::launcher {
namespace {

struct Orders {
  std::vector<std::string> marks;
  std::vector<pid_t> sessions;
  std::vector<std::string> directories;
};

void obey(Orders& orders, const std::string& line) {
  const std::string text = line.substr(1);
  if (line[0] == 'm') orders.marks.push_back(text);
  if (line[0] == 's') orders.sessions.push_back(atoi(text.c_str()));
  if (line[0] == 'd') orders.directories.push_back(text);
}

// Sleeps until the launcher's end of the pipe is closed, which only its death does: its orders lie
// in the pipe meanwhile, and cost no switch to this process.
Orders listen(int pipe) {
  pollfd death{pipe, 0, 0};
  while (poll(&death, 1, -1) < 0) {
  }
  Orders orders;
  std::string pending;
  char buffer[4096];
  for (ssize_t n; (n = read(pipe, buffer, sizeof buffer)) > 0;) {
    pending.append(buffer, static_cast<std::size_t>(n));
    for (std::size_t end; (end = pending.find('\n')) != std::string::npos;) {
      obey(orders, pending.substr(0, end));
      pending.erase(0, end + 1);
    }
  }
  return orders;
}

void clean_up(const Orders& orders) {
  constexpr int kRounds = 200;  // of 10 ms: a process stuck in the kernel is not waited for
  for (int round = 0; round < kRounds && !orders.marks.empty(); ++round) {
    const auto left = find_marked(orders.marks, orders.sessions);
    if (left.empty()) break;
    for (const pid_t pid : left) kill(pid, SIGKILL);
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  std::error_code ignored;
  for (const auto& directory : orders.directories) std::filesystem::remove_all(directory, ignored);
}

[[noreturn]] void guard_main(int pipe) {
  setsid();  // the terminal's Ctrl-C is not for us
  for (const int signal_number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) signal(signal_number, SIG_IGN);
  prctl(PR_SET_NAME, "rlxrun-guard");
  // A reader of the launcher's output must see its end, and a file system must be free to be
  // unmounted.
  dup2(pipe, 3);
  close_range(4, ~0u, 0);
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  close(null);
  if (chdir("/") != 0) _exit(1);
  clean_up(listen(3));
  _exit(0);
}

}  // namespace

Guard Guard::start() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Guard(-1, Fd());
  Fd reading(ends[0]), writing(ends[1]);
  // Like fork, but without an exit signal: waitpid(-1) then says "no child left" when the job has
  // none.
  const pid_t pid = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) guard_main(reading.get());
  return Guard(pid, pid > 0 ? std::move(writing) : Fd());
}

void Guard::dismiss() const {
  if (pipe_) kill(pid_, SIGKILL);
}

Guard::~Guard() {
  if (!pipe_) return;
  dismiss();
  waitpid(pid_, nullptr, __WCLONE);
}

void Guard::tell(char what, std::string_view text) const {
  if (!pipe_) return;
  const std::string line = what + std::string(text) + "\n";
  // A guard that was killed, or has more orders than a pipe holds, cannot help with this one; the
  // next launch removes what is left.
  [[maybe_unused]] const auto n = write(pipe_.get(), line.data(), line.size());
}

void Guard::will_remove(const std::string& directory) const { tell('d', directory); }
void Guard::started_session(pid_t leader) const { tell('s', std::to_string(leader)); }
void Guard::marked_by(std::string_view entry) const { tell('m', entry); }

}  // namespace rlx::launcher
