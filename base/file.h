// SPDX-License-Identifier: MIT OR Apache-2.0
// Files that people write, read whole.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rlx {

inline constexpr std::size_t kMostText = std::size_t{16} << 20;  // of a settings or host file

// What a file, pipe or device holds, if that is no more than `most` bytes. Never a part of it.
// Errors name the path: kInvalid for a directory or more than `most` bytes, else the system's.
Result<std::string> read_file(const std::string& path, std::size_t most = kMostText);

// Writes text, and what standard output holds already, to where standard output leads: a full disk
// is an error here, not lost words.
Status print_out(std::string_view text);

}  // namespace rlx
