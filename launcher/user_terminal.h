// SPDX-License-Identifier: MIT OR Apache-2.0
// The terminal that rlxrun was started from, while a rank has it (--pty): what is typed is sent as
// it is, echo and Ctrl-C are for the rank's own terminal to make.
#pragma once

#include "launcher/node.h"

namespace rlx::launcher {

// Of the first of our standard streams that is a terminal.
WindowSize window_size();

// Its settings are restored when this goes, and when we die of any signal that a process notices.
class UserTerminal {
 public:
  UserTerminal() = default;
  ~UserTerminal() { take_back(); }
  UserTerminal(const UserTerminal&) = delete;
  UserTerminal& operator=(const UserTerminal&) = delete;

  // Does nothing when standard input is no terminal.
  void lend();
  void take_back();
  // Around a time in which another job of the shell may have it.
  void stop();
  void go_on();

 private:
  bool lent_ = false;
};

}  // namespace rlx::launcher
