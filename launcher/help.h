// SPDX-License-Identifier: MIT OR Apache-2.0
// Texts made from the table of options.
#pragma once

#include <string>

namespace rlx::launcher {

std::string help_text();
std::string man_page();  // troff
std::string bash_completion();
std::string version_text();

}  // namespace rlx::launcher
