// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/words.h"

#include <fmt/format.h>

namespace rlx {

std::string printable(std::string_view text, std::string_view keep) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80;
    if ((c < ' ' || c == 0x7f || c1) && keep.find(text[i]) == std::string_view::npos)
      out += fmt::format("\\x{:02x}", c);
    else
      out += text[i];
  }
  return out;
}

std::string excerpt(std::string_view text) {
  std::size_t end = std::min<std::size_t>(text.size(), 80);
  while (end > 0 && end < text.size() && (text[end] & 0xc0) == 0x80) --end;  // within a character
  return printable(text.substr(0, end), "") + (end < text.size() ? "..." : "");
}

}  // namespace rlx
