// SPDX-License-Identifier: MIT OR Apache-2.0
// The files rlx-eplb reads and writes. Errors name file and line, what was seen and what was
// wanted.
#pragma once

#include <string>

#include "sched/migration.h"
#include "sched/planner.h"

namespace rlx::eplb {

// Adds the windows of one file to `loads` (empty at first). By what it starts with:
//   plain   "layers experts", then a row of counts a layer
//   CSV     a row of comma-separated counts a layer; a header line may come first, and a first
//   column
//           named "layer" is left out
//   JSON    {"logical_count": [layers][experts]} or [steps][layers][experts], as SGLang dumps it; a
//           step is a window
Status add_loads(const std::string& path, sched::Loads& loads);

// {"physical_to_logical_map": [layers][slots]}, which SGLang's --init-expert-location reads too.
// "ranks", if it says so, must be the cluster's.
Result<sched::Placement> read_placement(const std::string& path, int layers,
                                        const sched::Cluster& cluster);
std::string placement_json(const sched::Placement& placement, const sched::Cluster& cluster,
                           int experts, const sched::Migration* migration);

// Replaces a regular file whole: a write that fails leaves what was there.
Status write_file(const std::string& path, const std::string& text);

}  // namespace rlx::eplb
