// SPDX-License-Identifier: MIT OR Apache-2.0
// Text cut into words, and made fit to be shown.
#pragma once

#include <algorithm>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

namespace rlx {

inline constexpr std::string_view kBlanks = " \t\r\n\f\v";

inline std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// What stands between separators, be it nothing: "a,,b" is three parts, "" is one.
inline std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

// The same without parts that are empty, at any of several separators.
inline std::vector<std::string> words_of(std::string_view text,
                                         std::string_view separators = kBlanks) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(separators), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Text of others on its way to a terminal: control characters, but for those to `keep`, and bytes
// that are no UTF-8 as \xNN.
std::string printable(std::string_view text, std::string_view keep = "\n");
// The same of the first 80 bytes or so, for a message that quotes it.
std::string excerpt(std::string_view text);
// Bytes of it without a character of UTF-8 at its end whose rest is missing.
std::size_t whole_characters(std::string_view text);

// "1 rank", "2 ranks".
inline std::string counted(std::integral auto n, std::string_view noun) {
  return std::to_string(n) + ' ' + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace rlx
