// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/host_ranges.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/words.h"

namespace rlx::launcher {
namespace {

bool is_number(std::string_view text) {
  constexpr std::size_t kMaxDigits = 9;
  return !text.empty() && text.size() <= kMaxDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

unsigned value_of(std::string_view digits) {
  unsigned value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

// "08-11" to 08 09 10 11; false if it is no such thing, or too many.
bool expand_range(std::string_view range, std::vector<std::string>& out) {
  const auto dash = std::min(range.find('-'), range.size());
  const auto first = range.substr(0, dash);
  const auto last = dash < range.size() ? range.substr(dash + 1) : first;
  if (!is_number(first) || !is_number(last) || value_of(last) < value_of(first)) return false;
  if (value_of(last) - value_of(first) >= kMaxHosts - std::min(out.size(), kMaxHosts)) return false;
  for (unsigned n = value_of(first); n <= value_of(last); ++n)
    out.push_back(fmt::format("{:0{}}", n, first.size()));
  return true;
}

tl::unexpected<Error> wrong(std::string_view word) {
  return fail(Code::kInvalid,
              fmt::format("'{}' is not a list of hosts such as n[1-2,4] or gpu[001-003]-ib (at "
                          "most {} hosts)",
                          excerpt(word), kMaxHosts));
}

}  // namespace

std::vector<std::string_view> split_host_words(std::string_view list) {
  std::vector<std::string_view> words;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] == '[') inside = true;
    if (list[i] == ']') inside = false;
    if (list[i] != ',' || inside) continue;
    words.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  words.push_back(list.substr(begin));
  return words;
}

Result<std::vector<std::string>> expand_host_word(std::string_view word) {
  std::vector<std::string> names{""};
  std::string_view rest = word;
  while (!rest.empty()) {
    const auto open = std::min(rest.find('['), rest.size());
    const auto plain = rest.substr(0, open);
    if (plain.find(']') != std::string_view::npos) return wrong(word);
    for (auto& name : names) name += plain;
    rest.remove_prefix(open);
    if (rest.empty()) break;
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return wrong(word);
    std::vector<std::string> numbers;
    for (const auto range : split_host_words(rest.substr(1, close - 1)))
      if (!expand_range(range, numbers)) return wrong(word);
    rest.remove_prefix(close + 1);
    if (names.size() * numbers.size() > kMaxHosts) return wrong(word);
    std::vector<std::string> longer;
    for (const auto& name : names)
      for (const auto& number : numbers) longer.push_back(name + number);
    names = std::move(longer);
  }
  if (names.front().empty()) return fail(Code::kInvalid, "a host without a name in the list");
  return names;
}

Result<std::vector<std::string>> expand_host_list(std::string_view list) {
  std::vector<std::string> names;
  for (const auto word : split_host_words(list)) {
    RLX_TRY_ASSIGN(const auto some, expand_host_word(word));
    if (names.size() + some.size() > kMaxHosts) return wrong(list);
    names.insert(names.end(), some.begin(), some.end());
  }
  return names;
}

}  // namespace rlx::launcher
