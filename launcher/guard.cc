// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/guard.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <vector>

#include "launcher/process.h"
#include "launcher/scratch.h"

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

constexpr int kLeaveMs = 2000;  // for a daemon whose parent is gone

// Sleeps until the launcher's end of the pipe is closed, which only its death does, and brings that
// about where it has to. Neither the orders in the pipe nor what comes by the link wakes us.
void await_death(int pipe, int hang_up, pid_t launcher) {
  pollfd ends[] = {{pipe, 0, 0}, {hang_up, POLLIN, 0}};
  while (poll(ends, 2, -1) < 0 || (ends[0].revents | ends[1].revents) == 0) {
  }
  if (ends[0].revents != 0) return;
  while (poll(ends, 1, kLeaveMs) < 0) {
  }
  if (ends[0].revents == 0) kill(launcher, SIGKILL);  // it lives: the number is not another's
  while (poll(ends, 1, -1) < 0) {
  }
}

// Becomes readable when the link is hung up. It does not keep the link open, as a duplicate would:
// whoever is at the other end sees the launcher's death at once. -1: there is no link.
Fd watch_hang_up(int link) {
  Fd watch(link >= 0 ? epoll_create1(EPOLL_CLOEXEC) : -1);
  epoll_event event{};
  event.events = EPOLLRDHUP;
  if (watch && epoll_ctl(watch.get(), EPOLL_CTL_ADD, link, &event) != 0) watch.reset();
  return watch;
}

Orders read_orders(int pipe) {
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
  for (const auto& directory : orders.directories) remove_scratch(directory);
}

[[noreturn]] void guard_main(int pipe, int hang_up, pid_t launcher) {
  setsid();  // the terminal's Ctrl-C is not for us
  for (const int signal_number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) signal(signal_number, SIG_IGN);
  prctl(PR_SET_NAME, "rlxrun-guard");
  // A reader of the launcher's output must see its end, and a file system must be free to be
  // unmounted.
  constexpr int kPipe = 3, kHangUp = 4;
  const int kept = fcntl(pipe, F_DUPFD, kHangUp + 1);
  if (hang_up >= 0 && hang_up != kHangUp) dup2(hang_up, kHangUp);
  dup2(kept, kPipe);
  close_range(hang_up >= 0 ? kHangUp + 1 : kHangUp, ~0u, 0);
  const int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
  close(null);
  if (chdir("/") != 0) _exit(1);
  await_death(kPipe, hang_up >= 0 ? kHangUp : -1, launcher);
  clean_up(read_orders(kPipe));
  _exit(0);
}

}  // namespace

Guard Guard::start(int link) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Guard(-1, Fd());
  Fd reading(ends[0]), writing(ends[1]);
  // Like fork, but without an exit signal: waitpid(-1) then says "no child left" when the job has
  // none.
  const Fd hang_up = watch_hang_up(link);
  const pid_t launcher = getpid();
  const pid_t pid = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) guard_main(reading.get(), hang_up.get(), launcher);
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
