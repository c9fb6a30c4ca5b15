// SPDX-License-Identifier: MIT OR Apache-2.0
// What others tell a head by signals: to it, or to the daemons of its job.
#include <sys/signalfd.h>
#include <unistd.h>

#include "launcher/head.h"

namespace rlx::launcher {
namespace {

constexpr double kTellTime = 0.3;  // between signals to all processes of a job

}  // namespace

void Head::on_signal() {
  signalfd_siginfo info;
  while (read(signal_fd_.get(), &info, sizeof info) == sizeof info)
    handle_signal(static_cast<int>(info.ssi_signo));
}

void Head::handle_signal(int signal_number) {
  switch (signal_number) {
    case SIGUSR1:
    case SIGUSR2:
      return node_->signal(signal_number);
    case SIGTSTP:
      return stop_with_ranks();
    case SIGCONT:
      terminal_.go_on();
      node_->signal(SIGCONT);
      let_go();
      if (input_) input_->continued();
      return resize();  // nobody told us while we were stopped
    case SIGWINCH:
      return resize();
    default:
      break;
  }
  const bool again = outcome_.signal_number() != 0;
  const std::string text = outcome_.interrupted(signal_number);
  if (!text.empty()) note(text);
  end(again && signal_number == SIGINT ? 0 : line_.end.term_grace_s,
      signal_number == SIGINT ? line_.end.int_signal : SIGTERM);
  if (quiet_) leave_when_written();
}

void Head::resize() {
  if (line_.pty_rank) node_->resize({0, *line_.pty_rank}, window_size());
}

void Head::stop_with_ranks() {
  terminal_.stop();
  node_->signal(SIGSTOP);
  raise(SIGSTOP);  // goes on when SIGCONT comes, which we then read as a signal
}

void Head::told_to_end() {
  if (outcome_.signal_number() == 0) handle_signal(SIGTERM);
}

// Slurm may tell the ranks to end before it tells us. Those that die of it at once are no failure
// then, and must not cost the others their time.
void Head::expect_to_be_told() {
  if (ending_ || expect_) return;
  expect_ = loop_.after(kTellTime, [this] {
    expect_.reset();
    for (const auto& judge : std::exchange(to_judge_, {})) judge();
    finish_when_all_ended();
  });
}

void Head::after_what_we_are_told(std::function<void()> judge) {
  if (!expect_ || ending_) return judge();
  to_judge_.push_back(std::move(judge));
}

}  // namespace rlx::launcher
