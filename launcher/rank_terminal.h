// SPDX-License-Identifier: MIT OR Apache-2.0
// The pseudo-terminal of a rank (--pty), as its node handles it.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "launcher/node.h"

namespace rlx::launcher {

// Neither end is inherited by programs or becomes our controlling terminal.
Status open_terminal(WindowSize size, Fd& rank_side, Fd& node_side);
// The rank's foreground processes get SIGWINCH when it changes.
void set_window(int node_side, WindowSize size);
// Whether what was typed, the end of input included, waits for somebody to read it. True also when
// nobody can.
bool has_unread(int node_side);
// Types the character that is the end of input where a line begins.
void type_end_of_input(int node_side);

}  // namespace rlx::launcher
