// SPDX-License-Identifier: MIT OR Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <sstream>

#include "base/file.h"
#include "base/knobs.h"
#include "coll/select.h"

namespace rlx {
namespace {

std::vector<std::string> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::istringstream stream{std::string(line)};
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

tl::unexpected<Error> unknown(const std::string& where, std::string_view what,
                              const std::string& word, const std::vector<std::string>& known) {
  const std::string near = nearest_word(word, known);
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return fail(Code::kInvalid,
              fmt::format("{}: unknown {} '{}'{}\n  known: {}", where, what, word,
                          near.empty() ? "" : fmt::format(", did you mean '{}'?", near), list));
}

std::vector<std::string> coll_names() {
  std::vector<std::string> names = {"*"};
  for (int i = 0; i < kCollCount; ++i) names.emplace_back(name_of(static_cast<Coll>(i)));
  return names;
}

std::vector<std::string> algorithm_names(std::uint32_t coll_mask) {
  std::vector<std::string> names = {"auto"};
  for (const Algorithm* algorithm : algorithms()) {
    const std::string name(algorithm->name);
    if ((coll_mask >> static_cast<int>(algorithm->coll) & 1) != 0 &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

// "64K" -> 65536; false if it is no such number.
bool parse_size(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return false;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (suffix == "K" || suffix == "k") shift = 10;
  if (suffix == "M" || suffix == "m") shift = 20;
  if (suffix == "G" || suffix == "g") shift = 30;
  if ((shift == 0 && !suffix.empty()) || value > ~std::uint64_t{0} >> shift) return false;
  value <<= shift;
  return true;
}

Status parse_range(const std::string& where, const std::string& key, const std::string& text,
                   std::uint64_t& least, std::uint64_t& most) {
  if (text == "*") return {};
  const std::size_t dash = text.find('-');
  const std::string low = text.substr(0, dash);
  bool good = parse_size(low, least);
  if (dash == std::string::npos)
    most = least;
  else if (dash + 1 < text.size())
    good = good && parse_size(text.substr(dash + 1), most);
  if (!good || least > most)
    return fail(Code::kInvalid,
                fmt::format("{}: {}={} is no range; write A, A-B or A- with suffixes K, M, G",
                            where, key, text));
  return {};
}

// Index of `word` among names 0 .. n-1, -1 for "*".
template <class NameFn>
Result<int> parse_name(const std::string& where, std::string_view what, const std::string& word,
                       int n, NameFn name) {
  if (word == "*") return -1;
  std::vector<std::string> known;
  for (int i = 0; i < n; ++i) {
    known.emplace_back(name(i));
    if (known.back() == word) return i;
  }
  return unknown(where, what, word, known);
}

Status parse_key(Rule& rule, const std::string& word) {
  static const std::vector<std::string> keys = {"fabric", "ranks", "bytes", "dtype", "op", "mode"};
  const std::size_t equals = word.find('=');
  const std::string key = word.substr(0, equals);
  if (equals == std::string::npos || std::find(keys.begin(), keys.end(), key) == keys.end())
    return unknown(rule.where, "key", key, keys);
  const std::string value = word.substr(equals + 1);
  if (key == "ranks") return parse_range(rule.where, key, value, rule.min_ranks, rule.max_ranks);
  if (key == "bytes") return parse_range(rule.where, key, value, rule.min_bytes, rule.max_bytes);
  if (key == "fabric") {
    static const std::vector<std::string> fabrics = {"*", "shm", "tcp"};
    if (std::find(fabrics.begin(), fabrics.end(), value) == fabrics.end())
      return unknown(rule.where, "fabric", value, fabrics);
    rule.fabric = value == "*" ? "" : value;
    return {};
  }
  if (key == "dtype") {
    RLX_TRY_ASSIGN(rule.dtype, parse_name(rule.where, "dtype", value, kDtypeCount,
                                          [](int i) { return name_of(static_cast<Dtype>(i)); }));
  } else if (key == "op") {
    RLX_TRY_ASSIGN(rule.op, parse_name(rule.where, "op", value, kOpCount,
                                       [](int i) { return name_of(static_cast<Op>(i)); }));
  } else {
    RLX_TRY_ASSIGN(rule.mode, parse_name(rule.where, "mode", value, 3,
                                         [](int i) { return name_of(static_cast<Mode>(i)); }));
  }
  return {};
}

Result<Rule> parse_rule(const std::vector<std::string>& words, std::string where) {
  Rule rule;
  rule.where = std::move(where);
  const std::vector<std::string> colls = coll_names();
  const auto coll = std::find(colls.begin(), colls.end(), words[0]);
  if (coll == colls.end()) return unknown(rule.where, "collective", words[0], colls);
  rule.coll_mask = words[0] == "*" ? ~0U : 1U << (coll - colls.begin() - 1);
  if (words.size() < 3 || words[words.size() - 2] != "->")
    return fail(Code::kInvalid, fmt::format("{}: a rule ends in '-> ALGORITHM'", rule.where));
  for (std::size_t i = 1; i + 2 < words.size(); ++i) RLX_TRY(parse_key(rule, words[i]));
  rule.algorithm = words.back();
  const std::vector<std::string> known = algorithm_names(rule.coll_mask);
  if (std::find(known.begin(), known.end(), rule.algorithm) == known.end())
    return unknown(rule.where, fmt::format("algorithm of {}", words[0]), rule.algorithm, known);
  return rule;
}

}  // namespace

Result<std::vector<Rule>> parse_rules(std::string_view text, std::string_view file) {
  std::vector<Rule> rules;
  int line_number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string> words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    if (words.empty()) continue;
    RLX_TRY_ASSIGN(Rule rule, parse_rule(words, fmt::format("{}:{}", file, line_number)));
    rules.push_back(std::move(rule));
  }
  return rules;
}

Result<std::vector<Rule>> load_rules(const std::string& path) {
  const auto text = read_file(path);
  if (!text) return fail(text.error().code, "RLX_RULES: " + text.error().text);
  return parse_rules(*text, path);
}

}  // namespace rlx
