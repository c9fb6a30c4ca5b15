// SPDX-License-Identifier: MIT OR Apache-2.0
// One node of the tests' launcher: a process with a PMIx server that forks ranks, serves and reaps
// them, and tells the head by messages.
#pragma once

#include <cstdint>
#include <string>

#include "pmix_glue/carrier.h"
#include "test/pmix_glue/hosted.h"

namespace rlx::test {

struct MiniNodeSetup {
  pmix::TreePlace place;
  bool is_alone = false;  // no tree: all ranks are here
  std::string hostname;
  std::string dir;     // of the server
  std::string output;  // file that the ranks write to
  int fd = -1;         // to the head
};

// Serves until the head says so or is gone. Throws when something that must work does not.
void run_mini_node(const MiniNodeSetup& setup, const HostedOptions& options);

}  // namespace rlx::test
