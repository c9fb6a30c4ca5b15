// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/shell_words.h"

namespace rlx::launcher {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Reads one quoted or plain word from the front of `line`. False: a quote is not closed.
bool take_word(std::string_view& line, std::string& word) {
  char quote = 0;
  while (!line.empty() && (quote != 0 || !is_blank(line.front()))) {
    const char c = line.front();
    line.remove_prefix(1);
    if (c == '\\' && quote != '\'' && !line.empty()) {
      word += line.front();
      line.remove_prefix(1);
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      word += c;
    }
  }
  return quote == 0;
}

}  // namespace

Result<std::vector<std::string>> shell_words(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    if (line.empty() || line.front() == '#') return words;
    if (!take_word(line, words.emplace_back()))
      return fail(Code::kInvalid, "a quote is not closed");
  }
}

}  // namespace rlx::launcher
