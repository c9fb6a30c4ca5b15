// SPDX-License-Identifier: MIT OR Apache-2.0
// What processes are doing: their stacks, read by gdb or eu-stack where one is installed.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/helpers.h"

namespace rlx::launcher {

class Stacks {
 public:
  using Lines = std::map<pid_t, std::vector<std::string>>;
  using Done = std::function<void(Lines)>;

  explicit Stacks(Helpers& helpers) : helpers_(helpers) {}
  // Once: `done` is called from the loop, when all have been read. What could not be read says why.
  void read(std::vector<pid_t> pids, Done done);

 private:
  void start_some();
  void start(pid_t pid);

  Helpers& helpers_;
  std::vector<pid_t> waiting_;
  std::size_t running_ = 0;
  Lines lines_;
  Done done_;
};

}  // namespace rlx::launcher
