// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/app_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "launcher/shell_words.h"

namespace rlx::launcher {

Result<std::vector<AppWord>> parse_app_file(std::string_view text, const std::string& name) {
  std::vector<AppWord> words;
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    auto of_line = shell_words(line);
    if (!of_line)
      return fail(Code::kInvalid, fmt::format("{}:{}: {}", name, number, of_line.error().text));
    if (!of_line->empty() && !words.empty() && words.back().text != ":")
      words.push_back({":", words.back().line});
    for (auto& word : *of_line) words.push_back({std::move(word), number});
  }
  if (!words.empty() && words.back().text == ":") words.pop_back();
  if (words.empty()) return fail(Code::kInvalid, fmt::format("{}: no program in it", name));
  return words;
}

Result<std::vector<AppWord>> read_app_file(const std::string& path) {
  RLX_TRY_ASSIGN(const auto text, read_file(path));
  return parse_app_file(text, path);
}

}  // namespace rlx::launcher
