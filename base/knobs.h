// SPDX-License-Identifier: MIT OR Apache-2.0
// The only place that reads the environment for settings. Values are parsed once, at first use;
// a value that cannot be parsed is an error with its name, value and range.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx {

struct Knobs {
#define RLX_KNOB_ENUM(name, def, words, sentence) int name = def;
#define RLX_KNOB_INT(name, def, min, max, sentence) std::int64_t name = def;
#define RLX_KNOB_STR(name, def, sentence) std::string name = def;
#include "base/knobs.def"
#undef RLX_KNOB_ENUM
#undef RLX_KNOB_INT
#undef RLX_KNOB_STR
};

// How a knob stands, for rlx-info and the man page.
struct KnobInfo {
  std::string variable;       // RLX_TIMEOUT_MS
  std::string type;           // "word,word" | "0..100" | "text"
  std::string default_value;  // as a user would write it
  std::string value;
  std::string source;  // "default" or "environment"
  std::string sentence;
};

// The process's settings. A wrong value keeps its default here and is reported by check_knobs().
const Knobs& knobs();
// First wrong value, if any; warns once about RLX_* variables that do not exist, naming the
// nearest.
Status check_knobs();
std::vector<KnobInfo> knob_table();
// Parses `environment` ("NAME=value" entries) into `out`; separate from the process for tests.
Status parse_knobs(const std::vector<std::string>& environment, Knobs& out,
                   std::vector<std::string>& unknown);
// The known word with the smallest edit distance to `word`, empty if none is near.
std::string nearest_word(std::string_view word, const std::vector<std::string>& known);

}  // namespace rlx
