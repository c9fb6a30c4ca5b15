// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace rlx::eplb {
namespace {

using nlohmann::json;
using sched::Loads;
using sched::Placement;

Result<std::string> read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail_errno("cannot open " + path);
  if (std::error_code error; std::filesystem::is_directory(path, error))
    return fail(Code::kInvalid, path + " is a directory, want a file");
  std::stringstream text;
  text << in.rdbuf();
  if (in.bad()) return fail_errno("cannot read " + path);
  std::string all = text.str();
  if (all.starts_with("\xef\xbb\xbf")) all.erase(0, 3);  // the mark spreadsheets put first
  return all;
}

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

std::string_view trimmed(std::string_view s) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}

// The words of a line, split at commas or at white space.
std::vector<std::string_view> words_of(std::string_view line, bool commas) {
  std::vector<std::string_view> words;
  line = trimmed(line);
  while (!line.empty()) {
    const size_t end = line.find_first_of(commas ? "," : " \t");
    words.push_back(trimmed(line.substr(0, end)));
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

Status add_row(const std::vector<std::string_view>& words, Rows& rows) {
  if (rows.experts == 0) rows.experts = static_cast<int>(words.size());
  if (static_cast<int>(words.size()) != rows.experts)
    return fail(Code::kInvalid,
                fmt::format("{} counts in this row, want {}", words.size(), rows.experts));
  for (std::string_view word : words) {
    RLX_TRY_ASSIGN(const double value, parse_count(word));
    rows.values.push_back(value);
  }
  return {};
}

bool is_size(double value) { return value >= 1 && value == std::floor(value); }

// The head of a column: a word that is no number, not even "NaN".
bool is_name(std::string_view word) {
  double value = 0;
  return !word.empty() && std::isalpha(static_cast<unsigned char>(word[0])) &&
         std::from_chars(word.data(), word.data() + word.size(), value).ptr !=
             word.data() + word.size();
}

Result<Rows> parse_text(const std::string& path, const std::string& text, bool commas) {
  Rows rows;
  int line_number = 0, layers = -1;
  bool drop_first = false;
  std::istringstream in(text);
  const auto at_line = [&](const std::string& what) {
    return fail(Code::kInvalid, fmt::format("{}:{}: {}", path, line_number, what));
  };
  for (std::string line; std::getline(in, line);) {
    ++line_number;
    std::vector<std::string_view> words = words_of(line, commas);
    if (words.empty()) continue;
    if (layers < 0 && !commas) {  // the plain format's first line
      const auto l = parse_count(words[0]);
      const auto e = words.size() == 2 ? parse_count(words[1]) : l;
      if (words.size() != 2 || !l || !e || !is_size(*l) || !is_size(*e) || *l * *e > INT32_MAX)
        return at_line("want 'layers experts' in the first line");
      layers = static_cast<int>(*l);
      rows.experts = static_cast<int>(*e);
      continue;
    }
    if (layers < 0) {
      layers = 0;
      drop_first = words[0] == "layer";
      if (is_name(words[0])) continue;  // a header
    }
    if (drop_first) words.erase(words.begin());
    if (Status ok = add_row(words, rows); !ok) return at_line(ok.error().text);
  }
  if (!commas && rows.count() != layers)
    return at_line(fmt::format("the file ends after {} rows, its first line says {}", rows.count(),
                               std::max(0, layers)));
  if (rows.count() == 0) return at_line("no counts here");
  return rows;
}

Result<json> parse_json(const std::string& path, const std::string& text) {
  // A key that comes twice in an object would win silently over its first value.
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  const auto watch = [&](int, json::parse_event_t event, json& parsed) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(parsed).second) repeated = parsed;
    return true;
  };
  try {
    json document = json::parse(text, watch);
    if (repeated.empty()) return document;
    return fail(Code::kInvalid,
                fmt::format("{}: \"{}\" is in it twice", path, repeated.substr(0, 40)));
  } catch (const json::exception& e) {
    std::string what = e.what();  // "[json.exception.parse_error.101] parse error at line 1, ..."
    if (const size_t end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    for (char& c : what)
      if (static_cast<unsigned char>(c) < ' ') c = ' ';
    return fail(Code::kInvalid, fmt::format("{}: not JSON: {}", path, what.substr(0, 200)));
  }
}

// The array under `key`, or the document itself if it is one.
Result<const json*> array_in(const std::string& path, const json& document, const char* key) {
  const json* found = &document;
  if (document.is_object()) {
    const auto it = document.find(key);
    if (it == document.end())
      return fail(Code::kInvalid, fmt::format("{}: no \"{}\" in it", path, key));
    found = &*it;
  }
  if (found->is_array() && !found->empty()) return found;
  return fail(Code::kInvalid, fmt::format("{}: \"{}\" is no array of rows", path, key));
}

// A value in a message. One that nests deeply must not be walked.
std::string shown(const json& value) {
  if (value.is_array()) return "an array";
  if (value.is_object()) return "an object";
  return value.dump().substr(0, 40);
}

Result<double> json_count(const json& value) {
  if (value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX)
    return static_cast<double>(value.get<uint64_t>());
  if (value.is_number_float() && value.get<double>() >= 0 && value.get<double>() < 0x1p63)
    return value.get<double>();
  return fail(Code::kInvalid, fmt::format("{}: {}", shown(value), kWanted));
}

bool is_slot_content(const json& id) {
  if (id.is_number_unsigned()) return id.get<uint64_t>() <= INT32_MAX;
  return id.is_number_integer() && id.get<int64_t>() == sched::kEmpty;
}

Status add_json_rows(const std::string& path, const json& layers, Rows& rows) {
  for (size_t l = 0; l < layers.size(); ++l) {
    const auto at_layer = [&](const std::string& what) {
      return fail(Code::kInvalid, fmt::format("{}: layer {}: {}", path, l, what));
    };
    if (!layers[l].is_array()) return at_layer("want an array of counts");
    if (rows.experts == 0) rows.experts = static_cast<int>(layers[l].size());
    if (rows.experts == 0 || static_cast<int>(layers[l].size()) != rows.experts)
      return at_layer(
          fmt::format("{} counts, want {}", layers[l].size(), std::max(1, rows.experts)));
    for (const json& value : layers[l]) {
      const auto count = json_count(value);
      if (!count) return at_layer(count.error().text);
      rows.values.push_back(*count);
    }
  }
  return {};
}

Result<Loads> parse_json_loads(const std::string& path, const std::string& text) {
  RLX_TRY_ASSIGN(const json document, parse_json(path, text));
  RLX_TRY_ASSIGN(const json* array, array_in(path, document, "logical_count"));
  const bool has_steps =
      array->front().is_array() && !array->front().empty() && array->front().front().is_array();
  Rows rows;
  Loads loads;
  if (has_steps) {
    loads.windows = static_cast<int>(array->size());
    for (const json& step : *array) {
      if (!step.is_array() || step.size() != array->front().size())
        return fail(Code::kInvalid, fmt::format("{}: steps of different numbers of layers", path));
      RLX_TRY(add_json_rows(path, step, rows));
    }
  } else {
    RLX_TRY(add_json_rows(path, *array, rows));
  }
  loads.layers = rows.count() / loads.windows;
  loads.experts = rows.experts;
  loads.values = std::move(rows.values);
  return loads;
}

}  // namespace

Status add_loads(const std::string& path, Loads& loads) {
  RLX_TRY_ASSIGN(const std::string text, read_file(path));
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return fail(Code::kInvalid, path + ": the file is empty");
  Loads more;
  if (text[first] == '{' || text[first] == '[') {
    RLX_TRY_ASSIGN(more, parse_json_loads(path, text));
  } else {
    const std::string_view line(&text[first],
                                std::min(text.find('\n', first), text.size()) - first);
    RLX_TRY_ASSIGN(Rows rows, parse_text(path, text, line.find(',') != std::string_view::npos));
    more = {1, rows.count(), rows.experts, std::move(rows.values)};
  }
  if (loads.layers == 0) {
    loads = std::move(more);
    return {};
  }
  if (more.layers != loads.layers || more.experts != loads.experts)
    return fail(Code::kInvalid,
                fmt::format("{}: {} layers of {} experts, the files before it have {} of {}", path,
                            more.layers, more.experts, loads.layers, loads.experts));
  loads.windows += more.windows;
  loads.values.insert(loads.values.end(), more.values.begin(), more.values.end());
  return {};
}

Result<Placement> read_placement(const std::string& path, int layers,
                                 const sched::Cluster& cluster) {
  const int slots = cluster.slots();
  RLX_TRY_ASSIGN(const std::string text, read_file(path));
  RLX_TRY_ASSIGN(const json document, parse_json(path, text));
  RLX_TRY_ASSIGN(const json* rows, array_in(path, document, "physical_to_logical_map"));
  // Other ranks own other slots: what seems to stay would move.
  if (document.is_object() && document.contains("ranks") && document["ranks"] != cluster.ranks())
    return fail(Code::kInvalid, fmt::format("{}: a placement for {} ranks, want {}", path,
                                            shown(document["ranks"]), cluster.ranks()));
  Placement placement{layers, slots, {}};
  if (static_cast<int>(rows->size()) != layers)
    return fail(Code::kInvalid, fmt::format("{}: {} layers, want {}", path, rows->size(), layers));
  for (size_t l = 0; l < rows->size(); ++l) {
    const json& row = (*rows)[l];
    if (!row.is_array() || static_cast<int>(row.size()) != slots)
      return fail(Code::kInvalid, fmt::format("{}: layer {}: {} slots, want {}", path, l,
                                              row.is_array() ? row.size() : 0, slots));
    for (const json& id : row) {
      if (!is_slot_content(id))
        return fail(Code::kInvalid, fmt::format("{}: layer {}: {}: want an expert id, or -1 for an "
                                                "empty slot",
                                                path, l, shown(id)));
      placement.expert.push_back(id.get<int32_t>());
    }
  }
  return placement;
}

std::string placement_json(const Placement& placement, const sched::Cluster& cluster, int experts,
                           const sched::Migration* migration) {
  std::string out = fmt::format(
      "{{\"ranks\": {}, \"nodes\": {}, \"experts\": {},\n \"physical_to_logical_map\": [",
      cluster.ranks(), cluster.nodes(), experts);
  for (int l = 0; l < placement.layers; ++l) {
    out += l ? ",\n  [" : "\n  [";
    for (int s = 0; s < placement.slots; ++s)
      out += fmt::format("{}{}", s ? "," : "", placement.row(l)[s]);
    out += "]";
  }
  out += "]";
  if (migration) {
    out +=
        ",\n \"moves_are\": [\"layer\", \"expert\", \"from\", \"to\", \"from_slot\", \"to_slot\", "
        "\"round\", \"forwarded\"],\n \"moves\": [";
    bool first = true;
    for (const sched::Transfer& t : migration->transfers) {
      out += fmt::format("{}[{},{},{},{},{},{},{},{}]", first ? "\n  " : ",\n  ", t.layer, t.expert,
                         t.from, t.to, t.from_slot, t.to_slot, t.round, t.forwarded ? 1 : 0);
      first = false;
    }
    out += "]";
  }
  return out + "}\n";
}

Status write_file(const std::string& path, const std::string& text) {
  // A file that exists is replaced whole or not at all; a device or pipe is written to.
  std::error_code none;
  const bool replace =
      !std::filesystem::exists(path, none) || std::filesystem::is_regular_file(path, none);
  const std::string target = replace ? fmt::format("{}.{}.tmp", path, ::getpid()) : path;
  std::ofstream out(target, std::ios::binary);
  out << text;
  out.close();
  if (out && (!replace || std::rename(target.c_str(), path.c_str()) == 0)) return {};
  const auto failed = fail_errno("cannot write " + path);
  if (replace) std::filesystem::remove(target, none);
  return failed;
}

}  // namespace rlx::eplb
