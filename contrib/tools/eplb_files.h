// SPDX-License-Identifier: MIT OR Apache-2.0
// The files rlx-eplb reads and writes. Errors name file and line, what was seen and what was
// wanted.
#pragma once

#include <string>
#include <string_view>

#include "sched/migration.h"
#include "sched/planner.h"

namespace rlx::eplb {

inline constexpr std::size_t kMostFile = std::size_t{256} << 20;

// Loads in any of the forms that rlx-eplb --help lists; `path` is for messages. `note` says what
// was taken for granted, if anything.
Result<sched::Loads> parse_loads(const std::string& path, const std::string& text,
                                 std::string& note);
// Adds the windows of one file to `loads` (empty at first).
Status add_loads(const std::string& path, sched::Loads& loads, std::string& note);

// {"physical_to_logical_map": [layers][slots]}, which SGLang's --init-expert-location reads too, or
// the array alone. "ranks", "nodes" and "experts", if it says so, must be ours.
Result<sched::Placement> parse_placement(const std::string& path, const std::string& text,
                                         int layers, int experts, const sched::Cluster& cluster);
Result<sched::Placement> read_placement(const std::string& path, int layers, int experts,
                                        const sched::Cluster& cluster);
// With `migration` also the moves, how many slots are fetched, how many of them because no living
// rank has their expert, and the budget (-1: none). `dead` by rank, or empty.
std::string placement_json(const sched::Plan& plan, const sched::Cluster& cluster, int experts,
                           std::span<const uint8_t> dead, const sched::Migration* migration,
                           int64_t budget);

// The two are, or would become, one regular file.
bool is_same_output(const std::string& a, const std::string& b);
// Replaces a regular file whole, at the end of symbolic links and with the rights it has: a write
// that fails leaves what was there.
Status write_file(const std::string& path, const std::string& text);

}  // namespace rlx::eplb
