// SPDX-License-Identifier: MIT OR Apache-2.0
// What a process needs before it can host ranks, be it the head of a job or a daemon.
#pragma once

#include <signal.h>

#include <memory>
#include <string>

#include "base/result.h"
#include "launcher/environment.h"
#include "launcher/guard.h"
#include "launcher/scratch.h"

namespace rlx::launcher {

// A descriptor we open must never become somebody's standard output.
void open_missing_standard_streams();

// Blocks the signals a launcher reads, and returns them. One that was ignored when we were started
// (nohup, a background job of a shell) stays ignored. `before` gets the mask we were started with.
sigset_t block_signals(sigset_t& before);
// Whether it was ignored before.
bool ignore_sigpipe();

// libpmix crashes, here and in ranks, for a user who has neither HOME nor an entry in the list of
// users, as is common in containers.
void ensure_home(Environment& environment);

// Directories of this process alone, known to the guard.
struct Directories {
  std::unique_ptr<Scratch> main, shm;
  std::string note;  // why not the place that was asked for
};
// Where directories of launches may be.
std::vector<std::string> scratch_parents(const Environment& environment);
Status make_directories(const Environment& environment, const Guard& guard, Directories& made);

}  // namespace rlx::launcher
