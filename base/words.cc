// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/words.h"

#include <fmt/format.h>

namespace rlx {
namespace {

// Bytes of the UTF-8 character that `text` begins with; 1 of what is none.
std::size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first > 0xf4 || length > text.size()) return 1;
  for (std::size_t i = 1; i < length; ++i)
    if ((text[i] & 0xc0) != 0x80) return 1;
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
  std::size_t end = std::min<std::size_t>(text.size(), 80);
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;  // within a character
  return printable(text.substr(0, end), "") + (end < text.size() ? "..." : "");
}

}  // namespace rlx
