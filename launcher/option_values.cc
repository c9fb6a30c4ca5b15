// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace rlx::launcher {
namespace {

tl::unexpected<Error> wrong(std::string_view word, std::string_view wanted) {
  return fail(Code::kInvalid, fmt::format("'{}' is not {}", word, wanted));
}

std::string lower(std::string_view word) {
  std::string out(word);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

bool read_double(std::string_view word, double& out) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc() && end == word.data() + word.size() && out >= 0;
}

Status read_modifier(std::string_view word, MapOptions& map) {
  if (word.starts_with("pe=")) {
    RLX_TRY_ASSIGN(map.cores_per_rank, read_count(word.substr(3), 1));
    return {};
  }
  if (word == "oversubscribe") {
    map.oversubscribe = true;
    return {};
  }
  if (word == "nooversubscribe" || word == "span") return {};
  return wrong(word, "a modifier of --map-by (pe=N, oversubscribe)");
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

Result<int> read_count(std::string_view word, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < least)
    return wrong(word, fmt::format("a whole number of at least {}", least));
  return value;
}

Result<double> read_seconds(std::string_view word) {
  constexpr std::string_view kWanted = "a time such as 90, 1.5, 10m, 2h or 1:30";
  double total = 0;
  std::string_view number = word;
  double unit = 1;
  if (number.ends_with('s') || number.ends_with('m') || number.ends_with('h')) {
    unit = number.back() == 'h' ? 3600 : number.back() == 'm' ? 60 : 1;
    number.remove_suffix(1);
  }
  for (const auto& part : split(number, ':')) {
    double value = 0;
    if (!read_double(part, value)) return wrong(word, kWanted);
    total = total * 60 + value;
  }
  total *= unit;
  if (total > 1e8) return wrong(word, kWanted);
  return total;
}

struct BindName {
  std::string_view word;
  BindTo bind;
};
constexpr BindName kBindNames[] = {{"slice", BindTo::kSlice},     {"none", BindTo::kNone},
                                   {"hwt", BindTo::kThread},      {"hwthread", BindTo::kThread},
                                   {"core", BindTo::kCore},       {"l3", BindTo::kL3},
                                   {"l3cache", BindTo::kL3},      {"numa", BindTo::kNuma},
                                   {"package", BindTo::kPackage}, {"socket", BindTo::kPackage}};

Result<BindTo> read_bind_to(std::string_view word) {
  const std::string name = lower(split(word, ':').front());  // modifiers such as :overload-allowed
  for (const auto& row : kBindNames)
    if (row.word == name) return row.bind;
  return wrong(word, "something to bind to (slice, core, hwt, l3, numa, package, none)");
}

std::string_view name_of(BindTo bind) {
  for (const auto& row : kBindNames)
    if (row.bind == bind) return row.word;
  return "?";
}

Status read_map_by(std::string_view word, MapOptions& map) {
  const auto parts = split(lower(word), ':');
  std::size_t next = 1;
  MapOptions read = map;
  if (parts[0] == "slot") {
    read.by = MapBy::kSlot;
  } else if (parts[0] == "node") {
    read.by = MapBy::kNode;
  } else if (parts[0] == "ppr") {
    if (parts.size() < 3) return wrong(word, "a mapping such as ppr:2:numa");
    read.by = MapBy::kPerObject;
    RLX_TRY_ASSIGN(read.per_object, read_count(parts[1], 1));
    RLX_TRY_ASSIGN(read.object, locality_from_name(parts[2]));
    next = 3;
  } else if (const auto object = locality_from_name(parts[0])) {
    read.by = MapBy::kObject;
    read.object = *object;
  } else if (!parts[0].empty()) {  // ":pe=2" keeps the default
    return wrong(word, "a mapping (slot, node, package, numa, l3, core, hwt, ppr:N:OBJECT)");
  }
  for (; next < parts.size(); ++next) RLX_TRY(read_modifier(parts[next], read));
  map = std::move(read);
  return {};
}

std::string_view name_of(Manager manager) {
  constexpr std::string_view kNames[] = {"none", "slurm", "pbs", "lsf", "sge", "flux"};
  return kNames[static_cast<std::size_t>(manager)];
}

Result<Manager> read_manager(std::string_view word) {
  for (const Manager manager : {Manager::kNone, Manager::kSlurm, Manager::kPbs, Manager::kLsf,
                                Manager::kSge, Manager::kFlux})
    if (name_of(manager) == word) return manager;
  return wrong(word, "a resource manager (none, slurm, pbs, lsf, sge, flux)");
}

Result<Tag> read_tag(std::string_view word) {
  if (word == "rank") return Tag::kRank;
  if (word == "host") return Tag::kHost;
  if (word == "full") return Tag::kFull;
  return wrong(word, "a tag (rank, host, full)");
}

Result<int> read_stdin(std::string_view word) {
  if (word == "all") return kStdinAll;
  if (word == "none") return kStdinNone;
  if (const auto rank = read_count(word, 0)) return *rank;
  return wrong(word, "a receiver of standard input (a rank, all, none)");
}

Result<EnvironmentEdit> read_environment_edit(std::string_view word) {
  EnvironmentEdit edit;
  const auto equals = word.find('=');
  if (equals != std::string_view::npos) {
    edit.kind = EnvironmentEdit::Kind::kSet;
    edit.value = word.substr(equals + 1);
    word = word.substr(0, equals);
  } else if (word.starts_with('^')) {
    edit.kind = EnvironmentEdit::Kind::kUnset;
    word.remove_prefix(1);
  }
  if (word.empty()) return wrong(word, "a variable (NAME, NAME=value, 'PREFIX*', ^NAME)");
  edit.pattern = word;
  return edit;
}

Status read_display(std::string_view word, CommandLine& line) {
  for (const auto& part : split(word, ',')) {
    if (part == "map")
      line.show_map = true;
    else if (part == "bind")
      line.report_bindings = true;
    else if (part == "alloc" || part == "allocation")
      line.show_allocation = true;
    else if (part == "topo")
      line.show_topology = true;
    else
      return wrong(part, "something to display (map, bind, alloc, topo)");
  }
  return {};
}

}  // namespace rlx::launcher
