// SPDX-License-Identifier: MIT OR Apache-2.0
// What the servers of all nodes know of a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pmix_glue/proc_id.h"

namespace rlx::pmix {

struct RankPlace {
  uint32_t node = 0;  // index into Job::nodes
  uint32_t app = 0;   // index into Job::apps
  std::string cpus;   // hwloc list such as "0-3,8"; empty when not bound
};

struct App {
  std::vector<std::string> argv;
  std::string wdir;
};

struct Job {
  std::string name;                // from new_job_name()
  std::vector<std::string> nodes;  // host names of all daemons, by index; some may hold no rank
  std::vector<App> apps;           // each app holds a contiguous range of ranks, in order
  std::vector<RankPlace> ranks;    // index is the rank
  uint32_t universe_size = 0;      // slots of the allocation
  bool oversubscribed = false;     // more ranks than cores on some node
  std::optional<ProcId> parent;    // set for a job made by Host::spawn
  bool stop_in_init = false;       // ranks wait in Init for Server::release
};

// How a rank ended.
struct Ending {
  enum class Kind : uint8_t {
    kExited,
    kSignaled,
    kNotStarted,
    kUnfinalized,  // exited with 0, but had connected and not finalized
    kNodeLost,     // with the node it was on
  } kind = Kind::kExited;
  int value = 0;  // exit status or signal number

  bool is_failure() const { return kind != Kind::kExited || value != 0; }
};

}  // namespace rlx::pmix
