// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/words.h"

#include <fmt/format.h>

namespace rlx {
namespace {

// Bytes of a UTF-8 character by its first one; 1 of what is none.
std::size_t length_by_first(char byte) {
  const auto first = static_cast<unsigned char>(byte);
  return first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

bool continues(char byte) { return (byte & 0xc0) == 0x80; }

// Bytes of the UTF-8 character that `text` begins with; 1 of what is none.
std::size_t character_length(std::string_view text) {
  const std::size_t length = length_by_first(text[0]);
  if (static_cast<unsigned char>(text[0]) > 0xf4 || length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(text[i])) return 1;
  return length;
}

}  // namespace

std::string printable(std::string_view text, std::string_view keep) {
  std::string out;
  while (!text.empty()) {
    const auto c = static_cast<unsigned char>(text[0]);
    const std::size_t length = character_length(text);
    const bool c1 = c == 0xc2 && length == 2 && (text[1] & 0xe0) == 0x80;
    const bool shown = length > 1 ? !c1 : c >= ' ' && c < 0x7f;
    if (shown || keep.find(text[0]) != std::string_view::npos) {
      out += text.substr(0, length);
      text.remove_prefix(length);
    } else {
      out += fmt::format("\\x{:02x}", c);
      text.remove_prefix(1);
    }
  }
  return out;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kMost = 80;
  if (text.size() <= kMost) return printable(text, "");
  return printable(text.substr(0, whole_characters(text.substr(0, kMost))), "") + "...";
}

std::size_t whole_characters(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const char byte = text[text.size() - n];
    if (!continues(byte)) return text.size() - (length_by_first(byte) > n ? n : 0);
  }
  return text.size();
}

}  // namespace rlx
