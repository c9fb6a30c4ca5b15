// SPDX-License-Identifier: MIT OR Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace train {

struct Options {
  std::string data;                       // empty: the King James Bible
  std::string checkpoint = "train.ckpt";  // "none": not written
  bool resume = false;
  bool exact = false;
  bool help = false;
  std::uint64_t steps = 0;  // 0: by time
  double seconds = 50;
  std::uint32_t batch = 512;  // windows a step, over all ranks
  double lr = 2e-3;
  std::uint64_t seed = 1;
  std::uint64_t every = 0;     // steps between checkpoints; 0: at the end only
  std::uint64_t crash_at = 0;  // the last rank kills itself before this step; 0: never
  // Said on the command line, so that a checkpoint that differs is an error.
  bool has_batch = false;
  bool has_seed = false;
};

// Throws Failure (kExitUsage). Reads RLX_RESTART_COUNT too: a launcher that restarts the job makes
// it continue from the checkpoint if there is one.
Options parse_options(int argc, char** argv);
extern const char* const kHelp;

}  // namespace train
