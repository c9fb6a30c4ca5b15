// SPDX-License-Identifier: MIT OR Apache-2.0
// Host names in brackets, as Slurm writes them: n[1-2,4],gpu[001-003]-ib, r[1-2]n[01-16].
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx::launcher {

inline constexpr std::size_t kMaxHosts = 1 << 16;  // that a list may expand to

// Cuts at commas that stand outside brackets. "" is one empty word.
std::vector<std::string_view> split_host_words(std::string_view list);
// One word to all names it stands for: numbers keep their leading zeros, several brackets make all
// combinations, the last changing fastest. A word without brackets is itself.
Result<std::vector<std::string>> expand_host_word(std::string_view word);
// A whole list.
Result<std::vector<std::string>> expand_host_list(std::string_view list);

}  // namespace rlx::launcher
