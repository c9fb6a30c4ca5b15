// SPDX-License-Identifier: MIT OR Apache-2.0
// Cuts one stream of a rank into whole lines, with bounded memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rlx::launcher {

struct Text {
  std::string bytes;
  bool whole = true;  // ends with the end of a line
};

class LineAssembler {
 public:
  // On a terminal a carriage return ends a line too, so that progress bars move.
  LineAssembler(bool return_ends_line, std::size_t limit)
      : return_ends_line_(return_ends_line), limit_(limit) {}

  // Gives all lines that are now complete as one text, then, when what is left is longer than the
  // limit, that as a text which is not whole, cut between characters of UTF-8.
  std::vector<Text> take(std::string_view bytes);
  // What is left of an unfinished line.
  std::string flush() { return std::exchange(rest_, {}); }
  bool has_rest() const { return !rest_.empty(); }

 private:
  bool return_ends_line_;
  std::size_t limit_;
  std::string rest_;
};

// "2026-01-31T12:00:00.123 ", local time.
std::string timestamp_now();
// `bytes` with `prefix` before each line; before the first only when a line begins there.
std::string with_prefix(std::string_view bytes, const std::string& prefix, bool at_line_start);
// Each line ended by "\r\n", for terminals that do not return by themselves.
std::string with_returns(std::string_view bytes);

}  // namespace rlx::launcher
