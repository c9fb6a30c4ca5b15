// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/rank_terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace rlx::launcher {
namespace {

// Needs no /dev/pts, which may be another one than where the terminal was made.
Fd rank_side_of(int node_side) {
  return Fd(ioctl(node_side, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
}

}  // namespace

Status open_terminal(WindowSize size, Fd& rank_side, Fd& node_side) {
  node_side = Fd(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!node_side || grantpt(node_side.get()) != 0 || unlockpt(node_side.get()) != 0)
    return fail_errno("cannot make a pseudo-terminal (/dev/ptmx)");
  rank_side = rank_side_of(node_side.get());
  if (!rank_side) return fail_errno("cannot open a pseudo-terminal");
  termios settings{};
  if (tcgetattr(rank_side.get(), &settings) == 0) {
    settings.c_iflag |= IUTF8;  // backspace takes whole characters away
    tcsetattr(rank_side.get(), TCSANOW, &settings);
  }
  set_window(node_side.get(), size);
  return {};
}

void set_window(int node_side, WindowSize size) {
  const winsize window{size.rows, size.columns, 0, 0};
  ioctl(node_side, TIOCSWINSZ, &window);
}

bool has_unread(int node_side) {
  const Fd rank_side = rank_side_of(node_side);
  pollfd unread{rank_side.get(), POLLIN, 0};
  return !rank_side || poll(&unread, 1, 0) != 0;
}

void type_end_of_input(int node_side) {
  termios settings{};
  if (tcgetattr(node_side, &settings) != 0) return;  // the rank's settings, on either side
  const char end = static_cast<char>(settings.c_cc[VEOF]);
  // A full terminal has something to read first; the caller comes again.
  [[maybe_unused]] const auto n = write(node_side, &end, 1);
}

}  // namespace rlx::launcher
