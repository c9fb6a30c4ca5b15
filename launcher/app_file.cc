// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/app_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"

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

Result<std::vector<AppWord>> parse_app_file(std::string_view text, const std::string& name) {
  std::vector<AppWord> words;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    bool first = true;
    while (true) {
      while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
      if (line.empty() || line.front() == '#') break;
      std::string word;
      if (!take_word(line, word))
        return fail(Code::kInvalid, fmt::format("{}:{}: a quote is not closed", name, number));
      if (std::exchange(first, false) && !words.empty() && words.back().text != ":")
        words.push_back({":", words.back().line});
      words.push_back({std::move(word), number});
    }
  }
  if (!words.empty() && words.back().text == ":") words.pop_back();
  if (words.empty()) return fail(Code::kInvalid, fmt::format("{}: no program in it", name));
  return words;
}

Result<std::vector<std::string>> shell_words(std::string_view line) {
  std::vector<std::string> words;
  while (true) {
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    if (line.empty()) return words;
    if (!take_word(line, words.emplace_back()))
      return fail(Code::kInvalid, "a quote is not closed");
  }
}

Result<std::vector<AppWord>> read_app_file(const std::string& path) {
  RLX_TRY_ASSIGN(const auto text, read_file(path));
  return parse_app_file(text, path);
}

}  // namespace rlx::launcher
