// SPDX-License-Identifier: MIT OR Apache-2.0
// Files that place every rank by hand: lines "rank N=HOST slot=LIST".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/command_line.h"

namespace rlx::launcher {

// LIST is cores of the host by index ("0-3,8"), or of one of its packages ("1:0-2", "0:*"). Every
// rank from 0 on has one line. `name` is the file's, for errors ("name:line: ...").
Result<std::vector<RankLine>> parse_rank_file(std::string_view text, const std::string& name);
Status read_rank_file(const std::string& path, MapOptions& map);

}  // namespace rlx::launcher
