// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/knobs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <optional>

#include "base/log.h"
#include "base/words.h"

namespace rlx {
namespace {

std::string variable_of(std::string_view name) {
  std::string variable = "RLX_";
  for (const char c : name) variable += static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return variable;
}

std::optional<std::int64_t> parse_int(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  const std::string_view suffix(end, static_cast<std::size_t>(text.data() + text.size() - end));
  int shift = 0;
  if (suffix == "K" || suffix == "k")
    shift = 10;
  else if (suffix == "M" || suffix == "m")
    shift = 20;
  else if (suffix == "G" || suffix == "g")
    shift = 30;
  else if (!suffix.empty())
    return std::nullopt;
  std::int64_t scaled = 0;
  if (__builtin_mul_overflow(value, std::int64_t{1} << shift, &scaled)) return std::nullopt;
  return scaled;
}

// One row of knobs.def: how to read the variable into Knobs and how to show it.
struct Row {
  std::string variable, type, default_value, sentence;
  std::function<Status(Knobs&, const std::string&)> set;
  std::function<std::string(const Knobs&)> show;
};

tl::unexpected<Error> wrong(const std::string& variable, const std::string& value,
                            const std::string& wanted) {
  return fail(Code::kInvalid,
              fmt::format("{}={} in the environment: want {}", variable, value, wanted));
}

Row enum_row(std::string_view name, int def, std::string_view words, std::string_view sentence,
             int Knobs::*member) {
  const auto list = split(words, ',');
  const std::string variable = variable_of(name);
  return {variable,
          std::string(words),
          list[static_cast<std::size_t>(def)],
          std::string(sentence),
          [=](Knobs& knobs, const std::string& value) -> Status {
            const auto it = std::find(list.begin(), list.end(), value);
            if (it == list.end())
              return wrong(variable, value, fmt::format("one of {}", fmt::join(list, ", ")));
            knobs.*member = static_cast<int>(it - list.begin());
            return {};
          },
          [=](const Knobs& knobs) { return list[static_cast<std::size_t>(knobs.*member)]; }};
}

Row int_row(std::string_view name, std::int64_t def, std::int64_t min, std::int64_t max,
            std::string_view sentence, std::int64_t Knobs::*member) {
  const std::string variable = variable_of(name);
  return {variable,
          fmt::format("{}..{}", min, max),
          std::to_string(def),
          std::string(sentence),
          [=](Knobs& knobs, const std::string& value) -> Status {
            const auto parsed = parse_int(value);
            if (!parsed || *parsed < min || *parsed > max)
              return wrong(variable, value, fmt::format("a whole number {}..{}", min, max));
            knobs.*member = *parsed;
            return {};
          },
          [=](const Knobs& knobs) { return std::to_string(knobs.*member); }};
}

Row str_row(std::string_view name, std::string_view def, std::string_view sentence,
            std::string Knobs::*member) {
  return {variable_of(name),
          "text",
          std::string(def),
          std::string(sentence),
          [=](Knobs& knobs, const std::string& value) -> Status {
            knobs.*member = value;
            return {};
          },
          [=](const Knobs& knobs) { return knobs.*member; }};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
#define RLX_KNOB_ENUM(name, def, words, sentence) \
  enum_row(#name, def, words, sentence, &Knobs::name),
#define RLX_KNOB_INT(name, def, min, max, sentence) \
  int_row(#name, def, min, max, sentence, &Knobs::name),
#define RLX_KNOB_STR(name, def, sentence) str_row(#name, def, sentence, &Knobs::name),
#include "base/knobs.def"
#undef RLX_KNOB_ENUM
#undef RLX_KNOB_INT
#undef RLX_KNOB_STR
  };
  return table;
}

// Variables that programs of ours set for each other or for ranks; not settings.
bool is_known_fact(std::string_view variable) {
  constexpr std::string_view kFacts[] = {
      "RLX_RANK",   "RLX_SIZE",   "RLX_LOCAL_RANK",    "RLX_LOCAL_SIZE", "RLX_NODE_RANK",
      "RLX_GPU",    "RLX_JOBID",  "RLX_RESTART_COUNT", "RLX_TEST_DATA",  "RLX_TEST_MARK",
      "RLX_NNODES", "RLX_SRCDIR", "RLX_BUILDDIR"};
  return std::find(std::begin(kFacts), std::end(kFacts), variable) != std::end(kFacts);
}

struct Process {
  Knobs knobs;
  Status status;
  std::vector<std::string> unknown;
};

const Process& process() {
  static const Process state = [] {
    Process p;
    std::vector<std::string> environment;
    for (char** e = environ; e && *e; ++e)
      if (std::string_view(*e).substr(0, 4) == "RLX_") environment.emplace_back(*e);
    p.status = parse_knobs(environment, p.knobs, p.unknown);
    return p;
  }();
  return state;
}

}  // namespace

std::string nearest_word(std::string_view word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& candidate : known) {
    std::vector<std::size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= word.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= candidate.size(); ++j) {
        const std::size_t above = row[j];
        row[j] =
            std::min({above + 1, row[j - 1] + 1, diagonal + (word[i - 1] != candidate[j - 1])});
        diagonal = above;
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

Status parse_knobs(const std::vector<std::string>& environment, Knobs& out,
                   std::vector<std::string>& unknown) {
  Status first;
  for (const auto& entry : environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos) continue;
    const std::string variable = entry.substr(0, equals);
    if (variable.rfind("RLX_", 0) != 0 || is_known_fact(variable)) continue;
    const auto row = std::find_if(rows().begin(), rows().end(),
                                  [&](const Row& r) { return r.variable == variable; });
    if (row == rows().end()) {
      unknown.push_back(variable);
      continue;
    }
    Status status = row->set(out, entry.substr(equals + 1));
    if (!status && first) first = std::move(status);
  }
  return first;
}

const Knobs& knobs() { return process().knobs; }

Status check_knobs() {
  static const bool warned = [] {
    const char* rank = ::getenv("RLX_RANK");  // rank 0 speaks for all
    if (rank != nullptr && std::string_view(rank) != "0") return true;
    std::vector<std::string> known;
    for (const auto& row : rows()) known.push_back(row.variable);
    for (const auto& variable : process().unknown) {
      const std::string near = nearest_word(variable, known);
      log::warn("{} is not a setting of rlx{} (rlx-info knobs lists them)", variable,
                near.empty() ? "" : ", did you mean " + near + "?");
    }
    return true;
  }();
  (void)warned;
  return process().status;
}

std::vector<KnobInfo> knob_table() {
  std::vector<KnobInfo> table;
  for (const auto& row : rows()) {
    const bool set = ::getenv(row.variable.c_str()) != nullptr;
    table.push_back({row.variable, row.type, row.default_value, row.show(knobs()),
                     set ? "environment" : "default", row.sentence});
  }
  return table;
}

}  // namespace rlx
