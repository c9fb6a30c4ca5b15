// SPDX-License-Identifier: MIT OR Apache-2.0
// What ends the program early: an exit code (options.cc, --help) and 1-3 lines for people.
#pragma once

#include <optional>
#include <rlx/rlx.hpp>
#include <string>

namespace train {

enum ExitCode : int {
  kExitOk = 0,
  kExitRuntime = 1,     // rlx, a peer or the machine failed
  kExitUsage = 2,       // the command line
  kExitText = 3,        // the text is missing, unreadable or too small
  kExitCheckpoint = 4,  // the checkpoint is missing, damaged or of another run
  kExitWrite = 5        // the checkpoint cannot be written
};

struct Failure {
  ExitCode exit_code;
  std::string text;
};

// Collective: if a step failed on some rank, all ranks throw the Failure of the first of them, so
// that they leave together and one of them says why.
void agree(const rlx::Comm& comm, const std::optional<Failure>& failure);

// Runs `step` on this rank, then agrees.
template <class Step>
void together(const rlx::Comm& comm, Step step) {
  std::optional<Failure> failure;
  try {
    step();
  } catch (const Failure& e) {
    failure = e;
  }
  agree(comm, failure);
}

}  // namespace train
