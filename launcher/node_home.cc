// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/node_home.h"

#include <fcntl.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "base/knobs.h"

namespace rlx::launcher {
std::vector<std::string> scratch_parents(const Environment& environment) {
  std::vector<std::string> parents;
  if (!knobs().tmpdir.empty()) parents.push_back(knobs().tmpdir);
  if (const auto usual = environment.get("TMPDIR"); usual && !usual->empty())
    parents.push_back(*usual);
  for (const char* usual : {"/tmp", "/var/tmp", "/dev/shm"}) parents.emplace_back(usual);
  return parents;
}

void open_missing_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

sigset_t block_signals(sigset_t& before) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number :
       {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&ours, number);
  }
  sigset_t blocked = ours;
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  signal(SIGCHLD, SIG_DFL);  // an ignored one would reap the ranks for us
  return ours;
}

bool ignore_sigpipe() {
  struct sigaction before {
  }, ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  return before.sa_handler == SIG_IGN;
}

void ensure_home(Environment& environment) {
  if (environment.get("HOME") || getpwuid(geteuid())) return;
  environment.set("HOME", "/");
  setenv("HOME", "/", 0);
}

Status make_directories(const Environment& environment, const Guard& guard, Directories& made) {
  const auto parents = scratch_parents(environment);
  remove_stale_scratch(parents[0]);
  if (parents[0] != "/dev/shm") remove_stale_scratch("/dev/shm");
  RLX_TRY_ASSIGN(made.main, Scratch::create(parents, made.note));
  guard.will_remove(made.main->path());
  std::string unimportant;
  if (auto shm = Scratch::create({"/dev/shm"}, unimportant)) {
    made.shm = std::move(*shm);
    guard.will_remove(made.shm->path());
  }
  return {};
}

}  // namespace rlx::launcher
