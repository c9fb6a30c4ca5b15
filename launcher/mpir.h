// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of processes that parallel debuggers (gdb, DDT, TotalView, STAT) read out of a
// launcher: the MPIR Process Acquisition Interface, version 1.1 of the MPI Forum.
#pragma once

#include <string>
#include <vector>

namespace rlx::launcher {

struct DebugProcess {
  std::string host;
  std::string program;
  int pid = -1;
};

// All ranks of the job run: a debugger finds them, and stops us here if it started us. Later calls
// add the ranks of spawned jobs: `processes` is always the whole table.
void show_to_debuggers(const std::vector<DebugProcess>& processes);
// One drives us, and has read the table by the time that show_to_debuggers returns.
bool is_being_debugged();
// The job ends before its time; `why` is one line.
void tell_debuggers_of_abort(const std::string& why);

}  // namespace rlx::launcher
