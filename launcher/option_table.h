// SPDX-License-Identifier: MIT OR Apache-2.0
// The one table of rlxrun's options. A row makes the parser, --help, the man page and the
// completion.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "launcher/command_line.h"

namespace rlx::launcher {

enum class Group { kRun, kPlace, kEnvironment, kOutput, kEnd, kShow, kForeign };
inline constexpr Group kGroups[] = {Group::kRun,    Group::kPlace, Group::kEnvironment,
                                    Group::kOutput, Group::kEnd,   Group::kShow};
std::string_view title_of(Group group);

// Words that follow an option: none, as many as `argument` has words, or one optional behind '='.
using Words = std::span<const std::string>;
using Apply = Status (*)(CommandLine& line, AppLine& app, Words words);

struct Option {
  std::string_view names;     // as --help shows them, "-n, -np, --np"
  std::string_view also;      // spellings of other launchers, accepted and not shown
  std::string_view argument;  // "N", "KEY VALUE", "[=WHAT]" when optional, "" when none
  Group group;
  bool per_app;  // may also stand behind a ':'
  std::string_view sentence;
  Apply apply;  // null: refused, and the sentence says what to do instead
};

// Ours, and after them those of other launchers.
const std::vector<Option>& options();
std::span<const Option> foreign_options();
// All spellings of an option.
std::vector<std::string> spellings(const Option& option);
bool has_optional_argument(const Option& option);
std::size_t argument_count(const Option& option);

}  // namespace rlx::launcher
