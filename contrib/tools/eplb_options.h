// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of rlx-eplb.
#pragma once

#include <string>
#include <vector>

#include "sched/planner.h"

namespace rlx::eplb {

extern const char* const kHelp;
std::string man_page();  // made of kHelp

struct Options {
  std::vector<std::string> loads;
  std::string policy = "search", from, out, html, budget, dead, speed;
  int64_t ranks = 0, slots = 0, nodes = 1, racks = 1, groups = 1, top_k = 8, top_groups = 0;
  int64_t steps = 1000, expert_bytes = 44040192, seed = -1;
  double drift = 0, fixed_cost = 0, token_us = 0.56, gbps = 50;
  bool explain = false, allow_empty = false;
};

// Values are within their ranges and fit together; lists and names are read by those below.
Result<Options> parse(int argc, char** argv);
Result<sched::Policy> policy_named(const std::string& name);
// A list of ranks, marked in [ranks]; empty if there is none.
Result<std::vector<uint8_t>> dead_ranks(const Options& o);
Result<std::vector<double>> speeds(const Options& o);
// Slots that may change hands, of `slots`: their number, a share of them or the bytes they hold.
Result<int64_t> parse_budget(const Options& o, double slots);

}  // namespace rlx::eplb
