// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/mpir.h"

// The names, types and values below are the interface: a debugger looks them up in our symbols.
// NOLINTBEGIN(readability-identifier-naming)
extern "C" {
struct MPIR_PROCDESC {
  char* host_name;
  char* executable_name;
  int pid;
};
extern MPIR_PROCDESC* MPIR_proctable;
extern int MPIR_proctable_size, MPIR_being_debugged, MPIR_debug_state, MPIR_i_am_starter,
    MPIR_partial_attach_ok;
extern char* MPIR_debug_abort_string;
void MPIR_Breakpoint();

MPIR_PROCDESC* MPIR_proctable = nullptr;
int MPIR_proctable_size = 0;
int MPIR_being_debugged = 0;  // set by the debugger
int MPIR_debug_state = 0;     // 0 not yet, then the constants below
char* MPIR_debug_abort_string = nullptr;
int MPIR_i_am_starter = 1;       // we are no rank
int MPIR_partial_attach_ok = 1;  // ranks that nobody attaches to run on by themselves

// A debugger has a breakpoint here.
[[gnu::noinline]] void MPIR_Breakpoint() { asm volatile("" ::: "memory"); }
}
// NOLINTEND(readability-identifier-naming)

namespace rlx::launcher {
namespace {

constexpr int kSpawned = 1, kAborting = 2;  // MPIR_DEBUG_SPAWNED, MPIR_DEBUG_ABORTING

}  // namespace

void show_to_debuggers(const std::vector<DebugProcess>& processes) {
  static std::vector<DebugProcess> kept;  // the table points into it
  static std::vector<MPIR_PROCDESC> table;
  kept = processes;
  table.clear();
  for (auto& process : kept)
    table.push_back({process.host.data(), process.program.data(), process.pid});
  MPIR_proctable = table.data();
  MPIR_proctable_size = static_cast<int>(table.size());
  MPIR_debug_state = kSpawned;
  MPIR_Breakpoint();
}

bool is_being_debugged() { return MPIR_being_debugged != 0; }

void tell_debuggers_of_abort(const std::string& why) {
  static std::string kept;
  kept = why;
  MPIR_debug_abort_string = kept.data();
  MPIR_debug_state = kAborting;
  MPIR_Breakpoint();
}

}  // namespace rlx::launcher
