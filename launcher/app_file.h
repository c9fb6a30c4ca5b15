// SPDX-License-Identifier: MIT OR Apache-2.0
// A file that describes the programs of a job, one a line as they would stand on the command line
// (Open MPI's --app, MPICH's -configfile).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx::launcher {

struct AppWord {
  std::string text;
  int line = 0;
};

// The words of all lines (shell_words) with a ":" between two lines. `name` is for messages.
Result<std::vector<AppWord>> parse_app_file(std::string_view text, const std::string& name);
Result<std::vector<AppWord>> read_app_file(const std::string& path);

}  // namespace rlx::launcher
