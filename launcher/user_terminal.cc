// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/user_terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <initializer_list>

#include "launcher/stdin_source.h"

namespace rlx::launcher {
namespace {

// For the handler of signals that kill us, and there is but one such terminal.
termios g_before{};
volatile sig_atomic_t g_is_raw = 0;

void restore() {
  if (g_is_raw == 0) return;
  g_is_raw = 0;
  // To touch the terminal of the shell, or of another of its jobs, would do harm and stop us.
  if (terminal_is_ours()) tcsetattr(STDIN_FILENO, TCSANOW, &g_before);
}

void on_death(int signal_number) {
  restore();
  raise(signal_number);
}

// The head ends in order by all others.
void restore_on_death() {
  for (const int number : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGXCPU}) {
    struct sigaction before {
    }, action{};
    action.sa_handler = on_death;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL)
      sigaction(number, &action, nullptr);
  }
}

}  // namespace

WindowSize window_size() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    winsize window{};
    if (ioctl(fd, TIOCGWINSZ, &window) == 0) return {window.ws_row, window.ws_col};
  }
  return {};
}

void UserTerminal::lend() {
  restore_on_death();
  lent_ = true;
  go_on();
}

void UserTerminal::take_back() {
  lent_ = false;
  restore();
}

void UserTerminal::stop() { restore(); }

void UserTerminal::go_on() {
  if (!lent_ || isatty(STDIN_FILENO) == 0 || !terminal_is_ours()) return;
  if (g_is_raw == 0 && tcgetattr(STDIN_FILENO, &g_before) != 0) return;
  termios raw = g_before;
  cfmakeraw(&raw);
  // Programs that draw on the screen need "\n" to go down and no more, so it does when they draw on
  // this one. Otherwise lines come from a pager or tee, which rely on the terminal to return.
  if (isatty(STDOUT_FILENO) == 0) raw.c_oflag |= g_before.c_oflag & OPOST;
  g_is_raw = 1;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

}  // namespace rlx::launcher
