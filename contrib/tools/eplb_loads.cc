// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads as people have them: plain text, CSV of several kinds, JSON.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <sstream>

#include "base/file.h"
#include "base/words.h"
#include "contrib/tools/eplb_files.h"
#include "contrib/tools/eplb_json.h"

namespace rlx::eplb {
namespace {

using nlohmann::json;
using sched::Loads;
using Words = std::vector<std::string_view>;

constexpr const char* kWanted = "want a count from 0 to 2^63 - 1";

Result<double> parse_count(std::string_view word) {
  const char *begin = word.data(), *end = begin + word.size();
  int64_t whole = 0;
  auto [rest, error] = std::from_chars(begin, end, whole);
  if (rest == end && error == std::errc() && whole >= 0) return static_cast<double>(whole);
  double value = -1;
  if (error != std::errc::result_out_of_range)
    std::tie(rest, error) = [&] {
      const auto r = std::from_chars(begin, end, value);
      return std::pair(r.ptr, r.ec);
    }();
  if (rest == end && error == std::errc() && value >= 0 && value < 0x1p63) return value;
  const std::string shown(word.substr(0, 40));
  return fail(Code::kInvalid, fmt::format("'{}': {}", shown, kWanted));
}

std::string_view unquoted(std::string_view s) {
  const bool quoted = s.size() > 1 && s.front() == '"' && s.back() == '"';
  return quoted ? s.substr(1, s.size() - 2) : s;
}

// The words of a line, without quotes, split at commas or at white space.
std::vector<std::string_view> words_of(std::string_view line, bool commas) {
  std::vector<std::string_view> words;
  line = trimmed(line);
  while (!line.empty()) {
    const size_t end = line.find_first_of(commas ? "," : " \t");
    words.push_back(unquoted(trimmed(line.substr(0, end))));
    if (end == std::string_view::npos) break;
    line = commas ? line.substr(end + 1) : trimmed(line.substr(end));
    if (commas && line.empty()) words.emplace_back();
  }
  return words;
}

struct Rows {
  int experts = 0;
  std::vector<double> values;
  int count() const { return experts ? static_cast<int>(values.size()) / experts : 0; }
};

// A row of counts from column `first` on.
Status add_row(const Words& words, size_t first, Rows& rows) {
  const int seen = static_cast<int>(words.size()) - static_cast<int>(first);
  if (rows.experts == 0) rows.experts = seen;
  if (seen != rows.experts)
    return fail(Code::kInvalid, fmt::format("{} counts in this row, want {}", seen, rows.experts));
  for (size_t i = first; i < words.size(); ++i) {
    const auto value = parse_count(words[i]);
    if (!value)
      return fail(Code::kInvalid, fmt::format("column {}: {}", i + 1, value.error().text));
    rows.values.push_back(*value);
  }
  return {};
}

bool is_size(double value) { return value >= 1 && value == std::floor(value); }

// Calls `row(words)` for every line that is not blank; an error gets file and line in front.
template <class Row>
Status for_rows(const std::string& path, const std::string& text, bool commas, Row row) {
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const Words words = words_of(line, commas);
    if (words.empty()) continue;
    if (Status ok = row(words); !ok)
      return fail(Code::kInvalid, fmt::format("{}:{}: {}", path, number, ok.error().text));
  }
  return {};
}

Result<Rows> parse_plain(const std::string& path, const std::string& text) {
  Rows rows;
  int layers = -1;
  RLX_TRY(for_rows(path, text, false, [&](const Words& words) -> Status {
    if (layers >= 0) return add_row(words, 0, rows);
    const auto l = parse_count(words[0]);
    const auto e = words.size() == 2 ? parse_count(words[1]) : l;
    if (words.size() != 2 || !l || !e || !is_size(*l) || !is_size(*e) || *l * *e > INT32_MAX)
      return fail(Code::kInvalid,
                  fmt::format("'{}'{}: want 'layers experts', or CSV or JSON: see rlx-eplb --help",
                              words[0].substr(0, 40), words.size() > 1 ? " ..." : ""));
    layers = static_cast<int>(*l);
    rows.experts = static_cast<int>(*e);
    return {};
  }));
  if (rows.count() != layers)
    return fail(Code::kInvalid, fmt::format("{}: the file ends after {}, its first line says {}",
                                            path, counted(rows.count(), "row"), layers));
  return rows;
}

// The head of a column: a word that is no number, not even "NaN".
bool is_name(std::string_view word) {
  double value = 0;
  return !word.empty() && (std::isalpha(static_cast<unsigned char>(word[0])) || word[0] == '_') &&
         std::from_chars(word.data(), word.data() + word.size(), value).ptr !=
             word.data() + word.size();
}

// What a head names: lower case, without "_", "-" and spaces.
std::string plain_name(std::string_view word) {
  std::string name;
  for (char c : word)
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}
bool names_layer(std::string_view word) {
  return is_one_of(plain_name(word), {"layer", "layerid", "layeridx", "layerindex"});
}

// 0, 1, 2, ... from column `first` on: the heads that pandas gives to an array.
bool is_numbering(const Words& words, size_t first) {
  for (size_t i = first; i < words.size(); ++i)
    if (words[i] != std::to_string(i - first)) return false;
  return words.size() > first + 1;
}

// What the first row of a CSV file says about the others.
struct Head {
  bool present = false, numbered = false;
  size_t first_count = 0;                   // columns before the counts
  int layer = -1, expert = -1, count = -1;  // columns of the long form
};

Result<Head> read_head(const Words& words) {
  Head head;
  const bool index =
      words[0].empty() && words.size() > 1 && (is_name(words[1]) || is_numbering(words, 1));
  head.numbered = is_numbering(words, 0);
  head.present = head.numbered || index || is_name(words[0]);
  if (!head.present) return head;
  head.first_count = index || names_layer(words[0]) || plain_name(words[0]) == "index" ? 1 : 0;
  std::optional<std::string> other;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string name = plain_name(words[i]);
    int* column = names_layer(words[i]) ? &head.layer
                  : is_one_of(name, {"expert", "expertid", "expertidx", "logicalexpert"})
                      ? &head.expert
                  : is_one_of(name, {"count", "counts", "tokens", "ntokens", "numtokens", "load"})
                      ? &head.count
                      : nullptr;
    if (column) *column = static_cast<int>(i);
    if (!column && !(i == 0 && head.first_count)) other = words[i].substr(0, 40);
  }
  if (head.expert < 0) {
    head.layer = head.count = -1;
    return head;
  }
  if (head.layer < 0 || head.count < 0 || other)
    return fail(Code::kInvalid,
                other
                    ? fmt::format("a column 'expert' and a column '{}': want layer,expert,count "
                                  "and a row an expert, or a column an expert",
                                  *other)
                    : std::string("a column 'expert': want layer,expert,count and a row an expert, "
                                  "or a column an expert"));
  return head;
}

// Layer, expert and count of a row each, in any order; pairs that are missing got nothing.
class LongForm {
 public:
  Status add(const Words& words, const Head& head) {
    const int most = std::max({head.layer, head.expert, head.count});
    if (static_cast<int>(words.size()) <= most)
      return fail(Code::kInvalid,
                  fmt::format("{} columns in this row, want {}", words.size(), most + 1));
    double value[3];
    const int columns[3] = {head.layer, head.expert, head.count};
    for (int i = 0; i < 3; ++i) {
      const auto seen = parse_count(words[columns[i]]);
      if (!seen || (i < 2 && (*seen != std::floor(*seen) || *seen > kMostId)))
        return fail(
            Code::kInvalid,
            fmt::format("column {}: '{}': {}", columns[i] + 1, words[columns[i]].substr(0, 40),
                        i < 2 ? fmt::format("want a number from 0 to {}", kMostId) : kWanted));
      value[i] = *seen;
    }
    entries_.push_back({static_cast<int>(value[0]), static_cast<int>(value[1]), value[2]});
    return {};
  }

  // Layers in the order of their numbers.
  Result<Rows> rows() {
    std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
      return std::pair(a.layer, a.expert) < std::pair(b.layer, b.expert);
    });
    Rows rows;
    size_t layers = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      rows.experts = std::max(rows.experts, entries_[i].expert + 1);
      layers += i == 0 || entries_[i - 1].layer != entries_[i].layer;
    }
    // A short file can ask for a table of gigabytes: it is refused before there is one.
    if (layers * rows.experts > kMostLoads)
      return fail(Code::kInvalid, fmt::format("more than {} counts for {} experts a layer",
                                              kMostLoads, rows.experts));
    rows.values.resize(layers * rows.experts);
    size_t layer = 0;
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& e = entries_[i];
      if (i > 0 && entries_[i - 1].layer != e.layer)
        ++layer;
      else if (i > 0 && entries_[i - 1].expert == e.expert)
        return fail(Code::kInvalid,
                    fmt::format("layer {}, expert {} is in it twice", e.layer, e.expert));
      rows.values[layer * rows.experts + e.expert] = e.count;
    }
    return rows;
  }

 private:
  static constexpr int kMostId = 1'000'000;
  static constexpr size_t kMostLoads = size_t{1} << 27;
  struct Entry {
    int layer, expert;
    double count;
  };
  std::vector<Entry> entries_;
};

Result<Rows> parse_csv(const std::string& path, const std::string& text, std::string& note) {
  Rows rows;
  LongForm long_form;
  std::optional<Head> head;
  RLX_TRY(for_rows(path, text, true, [&](const Words& words) -> Status {
    if (head)
      return head->expert < 0 ? add_row(words, head->first_count, rows)
                              : long_form.add(words, *head);
    RLX_TRY_ASSIGN(head, read_head(words));
    if (!head->present) return add_row(words, 0, rows);
    rows.experts = static_cast<int>(words.size() - head->first_count);
    if (head->numbered)
      note = fmt::format("{}: the first row, 0 to {}, is taken for names of columns", path,
                         words.size() - 1);
    return {};
  }));
  if (head && head->expert >= 0) {
    auto sorted = long_form.rows();
    if (!sorted) return fail(Code::kInvalid, path + ": " + sorted.error().text);
    rows = std::move(*sorted);
  }
  if (rows.count() == 0) return fail(Code::kInvalid, path + ": no counts here");
  return rows;
}

Result<double> json_count(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX)
    return static_cast<double>(value.get<uint64_t>());
  if (value.is_number_float() && value.get<double>() >= 0 && value.get<double>() < 0x1p63)
    return value.get<double>();
  return fail(Code::kInvalid, fmt::format("{}: {}", shown(value), kWanted));
}

Status add_json_rows(const std::string& where, const json& layers, Rows& rows) {
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto at_layer = [&](const std::string& what) {
      return fail(Code::kInvalid, fmt::format("{}layer {}{}", where, l, what));
    };
    if (!layers[l].is_array()) return at_layer(": want an array of counts");
    if (rows.experts == 0) rows.experts = static_cast<int>(layers[l].size());
    if (rows.experts == 0 || static_cast<int>(layers[l].size()) != rows.experts)
      return at_layer(
          fmt::format(": {} counts, want {}", layers[l].size(), std::max(1, rows.experts)));
    for (size_t e = 0; e < layers[l].size(); ++e) {
      const auto count = json_count(layers[l][e]);
      if (!count) return at_layer(fmt::format(", expert {}: {}", e, count.error().text));
      rows.values.push_back(*count);
    }
  }
  return {};
}

bool has_rows(const json& step) {
  return step.is_array() && !step.empty() && step.front().is_array();
}

Result<Loads> parse_json_loads(const std::string& path, const std::string& text) {
  RLX_TRY_ASSIGN(const json document, parse_json(path, text));
  RLX_TRY_ASSIGN(const json* array, array_in(path, document, "logical_count"));
  Rows rows;
  Loads loads;
  if (has_rows(array->front())) {
    loads.windows = static_cast<int>(array->size());
    for (size_t t = 0; t < array->size(); ++t) {
      const json& step = (*array)[t];
      if (!has_rows(step))
        return fail(Code::kInvalid,
                    fmt::format("{}: step {}: want an array of layers, as step 0 is", path, t));
      if (step.size() != array->front().size())
        return fail(Code::kInvalid,
                    fmt::format("{}: step {}: {}, step 0 has {}", path, t,
                                counted(step.size(), "layer"), array->front().size()));
      RLX_TRY(add_json_rows(fmt::format("{}: step {}, ", path, t), step, rows));
    }
  } else {
    RLX_TRY(add_json_rows(path + ": ", *array, rows));
  }
  loads.layers = rows.count() / loads.windows;
  loads.experts = rows.experts;
  loads.values = std::move(rows.values);
  return loads;
}

}  // namespace

Result<Loads> parse_loads(const std::string& path, const std::string& text, std::string& note) {
  if (text.starts_with("PK\x03\x04") || text.starts_with("\x80\x02"))
    return fail(Code::kInvalid,
                path +
                    ": a file of PyTorch: convert it to JSON first, json.dump({'logical_count': "
                    "torch.load(FILE)['logical_count'].tolist()}, OUT)");
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return fail(Code::kInvalid, path + ": the file is empty");
  if (text[first] == '{' || text[first] == '[') return parse_json_loads(path, text);
  const std::string_view line(&text[first], std::min(text.find('\n', first), text.size()) - first);
  const bool commas = line.find(',') != std::string_view::npos;
  RLX_TRY_ASSIGN(Rows rows, commas ? parse_csv(path, text, note) : parse_plain(path, text));
  return Loads{1, rows.count(), rows.experts, std::move(rows.values)};
}

Status add_loads(const std::string& path, Loads& loads, std::string& note) {
  RLX_TRY_ASSIGN(std::string text, read_file(path, kMostFile));
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // the mark spreadsheets put first
  RLX_TRY_ASSIGN(Loads more, parse_loads(path, text, note));
  if (loads.layers == 0) {
    loads = std::move(more);
    return {};
  }
  if (more.layers != loads.layers || more.experts != loads.experts)
    return fail(Code::kInvalid,
                fmt::format("{}: {} of {}, the files before it have {} of {}", path,
                            counted(more.layers, "layer"), counted(more.experts, "expert"),
                            loads.layers, loads.experts));
  loads.windows += more.windows;
  loads.values.insert(loads.values.end(), more.values.begin(), more.values.end());
  return {};
}

}  // namespace rlx::eplb
