// SPDX-License-Identifier: MIT OR Apache-2.0
// What a row of the option tables does, for rows that only put a value where it belongs.
#pragma once

#include <string>

#include "launcher/option_table.h"
#include "launcher/option_values.h"

namespace rlx::launcher {

// `path` leads to a member of the command line: &CommandLine::map, &MapOptions::oversubscribe.
template <auto value, auto... path>
Status set(CommandLine& line, AppLine&, Words) {
  (line.*....*path) = value;
  return {};
}
template <auto reader, auto... path>
Status read(CommandLine& line, AppLine&, Words w) {
  RLX_TRY_ASSIGN((line.*....*path), reader(w[0]));
  return {};
}
template <auto value, auto member>
Status set_app(CommandLine&, AppLine& app, Words) {
  app.*member = value;
  return {};
}
template <auto reader, auto member>
Status read_app(CommandLine&, AppLine& app, Words w) {
  RLX_TRY_ASSIGN(app.*member, reader(w[0]));
  return {};
}
// For readers of several members at once.
template <auto reader, auto... path>
Status read_into(CommandLine& line, AppLine&, Words w) {
  return reader(w[0], (line.*....*path));
}

inline Result<std::string> text(const std::string& word) { return word; }
inline Result<int> not_negative(const std::string& word) { return read_count(word, 0); }
inline Result<int> at_least_one(const std::string& word) { return read_count(word, 1); }

}  // namespace rlx::launcher
