// SPDX-License-Identifier: MIT OR Apache-2.0
// A line cut into words as a shell would.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx::launcher {

// Words are quoted by '..', ".." and \x; nothing is expanded; a word that begins with # begins a
// comment. kInvalid: a quote is not closed.
Result<std::vector<std::string>> shell_words(std::string_view line);

}  // namespace rlx::launcher
