// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/option_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/words.h"
#include "launcher/allocation.h"
#include "launcher/rank_file.h"

namespace rlx::launcher {
namespace {

tl::unexpected<Error> wrong(std::string_view word, std::string_view wanted) {
  return fail(Code::kInvalid, fmt::format("'{}' is not {}", excerpt(word), wanted));
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
    RLX_TRY_ASSIGN(map.cores_per_rank, read_count(word.substr(3), 1, kMaxSlots));
    return {};
  }
  if (word == "oversubscribe")
    map.oversubscribe = true;
  else if (word == "span")
    map.span = true;
  else if (word != "nooversubscribe" && word != "noinherit" && word != "corecpus")
    return wrong(word, "a modifier of --map-by (pe=N, span, oversubscribe)");
  return {};
}

// What PRRTE says in --map-by and we elsewhere.
Status check_said_elsewhere(std::string_view word) {
  constexpr std::pair<std::string_view, std::string_view> kElsewhere[] = {
      {"nolocal", "name the hosts without this one: --host LIST or --hostfile FILE"},
      {"hwtcpus", "slots are cores here: say --bind-to hwt, and -n N or --host NAME:N"},
      {"inherit", "leave it out: spawned ranks take the slots that are left, and are not bound"},
      {"pe-list=", "say --cpu-list LIST, of hardware threads"}};
  for (const auto& [known, what_to_do] : kElsewhere)
    if (word.starts_with(known))
      return fail(Code::kInvalid, fmt::format("{}: {}", excerpt(word), what_to_do));
  return {};
}

// MPICH's number of objects, which is pe=N, or a word of Open MPI's that changes nothing here.
Status read_bind_modifier(std::string_view word, MapOptions& map) {
  for (const char* known : {"overload-allowed", "overload", "no-overload", "if-supported"})
    if (word == known) return {};
  const auto count = read_count(word, 1, kMaxSlots);
  if (!count || (*count > 1 && !binds_to_units(map)))
    return wrong(word, "a modifier (N behind core or hwt; overload-allowed, if-supported)");
  if (*count > 1) map.cores_per_rank = *count;
  return {};
}

// A part of a machine, or "gpu".
Status read_object(const std::string& word, MapOptions& map) {
  map.object_is_gpu = word == "gpu";
  if (map.object_is_gpu) return {};
  RLX_TRY_ASSIGN(map.object, locality_from_name(word));
  return {};
}

}  // namespace

Result<int> read_count(std::string_view word, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool beyond = error == std::errc::result_out_of_range && !word.starts_with('-');
  if (end == word.data() + word.size() && (beyond || (error == std::errc() && value > most)))
    return fail(Code::kInvalid,
                fmt::format("'{}' is too large: want at most {}", excerpt(word), most));
  if (error != std::errc() || end != word.data() + word.size() || value < least)
    return wrong(word, fmt::format("a whole number of at least {}", least));
  return value;
}

Result<bool> read_output_mode(std::string_view word) {
  if (word != "append" && word != "truncate") return wrong(word, "append or truncate");
  return word == "append";
}

std::string as_pattern(const std::string& path) {
  std::string pattern;
  for (const char c : path) pattern += c == '%' ? "%%" : std::string(1, c);
  return pattern;
}

std::string files_in(const std::string& directory) { return as_pattern(directory) + "/rank.%r.%s"; }

Result<std::string> read_directory(const std::string& word) {
  if (word.empty()) return wrong(word, "a directory");
  return word;
}

Result<std::string> read_output_file(const std::string& word) {
  bool of_all = true;
  for (std::size_t at = word.find('%'); at != std::string::npos; at = word.find('%', at + 2)) {
    const char what = at + 1 < word.size() ? word[at + 1] : ' ';
    if (std::strchr("rhns%", what) == nullptr)
      return wrong(word.substr(at, 2),
                   "one of %r (rank), %h (host), %n (job), %s (out or err), %%");
    of_all &= what != 'r' && what != 'h';
  }
  if (of_all)
    return wrong(word, "a file for each rank or host: want %r or %h in it (for one file: >FILE)");
  return word;
}

Result<int> read_signal(std::string_view word) {
  const std::string_view name = word.starts_with("SIG") ? word.substr(3) : word;
  for (int number = 1; number < SIGRTMIN; ++number)
    if (const char* known = sigabbrev_np(number); known && name == known) return number;
  return wrong(word, "a signal such as TERM or INT");
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

Status read_bind_to(std::string_view word, MapOptions& map) {
  const auto parts = split(lower(word), ':');
  if (parts[0] == "user")
    return fail(
        Code::kInvalid,
        "user: say it by --rankfile FILE, with a line 'rank 0=HOST slot=0-1' of each rank's "
        "cores, or by --cpu-list LIST --bind-to none for all ranks");
  map.bind = parts[0] == "slice"  ? BindTo::kSlice
             : parts[0] == "none" ? BindTo::kNone
             : parts[0] == "rr"   ? BindTo::kCpu
                                  : BindTo::kObject;
  if (map.bind == BindTo::kObject) {
    const auto object = locality_from_name(parts[0]);
    if (!object)
      return wrong(word,
                   "something to bind to (slice, core, hwt, l1, l2, l3, numa, package, none)");
    map.bind_object = *object;
  }
  for (std::size_t i = 1; i < parts.size(); ++i) RLX_TRY(read_bind_modifier(parts[i], map));
  return {};
}

Status read_map_by(std::string_view word, MapOptions& map) {
  constexpr std::string_view kFile = "rankfile:file=";
  if (lower(word).starts_with(kFile))
    return read_rank_file(std::string(word.substr(kFile.size())), map);
  const auto parts = split(lower(word), ':');
  for (const auto& part : parts) RLX_TRY(check_said_elsewhere(part));
  std::size_t next = 1;
  MapOptions read = map;
  read.by_said = true;
  if (parts[0] == "slot") {
    read.by = MapBy::kSlot;
  } else if (parts[0] == "node") {
    read.by = MapBy::kNode;
  } else if (parts[0] == "seq") {
    read.by = MapBy::kSequence;
  } else if (parts[0] == "rankfile") {
    if (map.rank_lines.empty()) return wrong(word, "complete: --map-by rankfile:file=FILE");
  } else if (parts[0] == "ppr") {
    if (parts.size() < 3) return wrong(word, "a mapping such as ppr:2:numa");
    read.by = MapBy::kPerObject;
    RLX_TRY_ASSIGN(read.per_object, read_count(parts[1], 1, kMaxSlots));
    RLX_TRY(read_object(parts[2], read));
    next = 3;
  } else if (!parts[0].empty()) {
    read.by = MapBy::kObject;
    if (!read_object(parts[0], read))
      return wrong(
          word,
          "a mapping (slot, node, package, numa, l3, l2, l1, core, hwt, gpu, ppr:N:OBJECT, seq, "
          "rankfile)");
  } else {  // ":pe=2" keeps the default
    read.by_said = map.by_said;
  }
  for (; next < parts.size(); ++next) RLX_TRY(read_modifier(parts[next], read));
  map = std::move(read);
  return {};
}

Result<RankBy> read_rank_by(std::string_view word) {
  if (word == "slot") return RankBy::kSlot;
  if (word == "node") return RankBy::kNode;
  if (word == "fill") return RankBy::kFill;
  if (word == "span" || locality_from_name(lower(word)))
    return fail(
        Code::kInvalid,
        fmt::format("{}: leave it out: ranks mapped by object are numbered in turn on each, "
                    "with --map-by OBJECT:span on those of all hosts",
                    word));
  return wrong(word, "a way to number ranks (slot, node, fill)");
}

Status read_per_node(std::string_view word, MapOptions& map) {
  map.per_node = word == "core" || word == "cpu" || word == "auto" ? PerNode::kCores
                 : word == "gpu"                                   ? PerNode::kGpus
                                                                   : PerNode::kNumber;
  if (map.per_node != PerNode::kNumber) return {};
  const auto count = read_count(word, 1, kMaxSlots);
  if (!count) return wrong(word, fmt::format("a number of ranks up to {}, core or gpu", kMaxSlots));
  map.ranks_per_node = *count;
  return {};
}

Status read_topology_file(const std::string& word, CommandLine& line) {
  const auto equals = word.find('=');
  const bool has_host = equals != std::string::npos && word.find('/') > equals;
  const std::string host = has_host ? word.substr(0, equals) : "";
  const std::string file = has_host ? word.substr(equals + 1) : word;
  if (file.empty()) return wrong(word, "FILE or HOST=FILE");
  line.topology_files[host] = file;
  return {};
}

std::string_view name_of(Manager manager) {
  constexpr std::string_view kNames[] = {"none", "slurm", "pbs", "lsf", "sge", "flux"};
  return kNames[static_cast<std::size_t>(manager)];
}

Result<Manager> read_manager(std::string_view word) {
  if (word == "user") return Manager::kNone;  // as MPICH says it
  for (const Manager manager : {Manager::kNone, Manager::kSlurm, Manager::kPbs, Manager::kLsf,
                                Manager::kSge, Manager::kFlux})
    if (name_of(manager) == word) return manager;
  return wrong(word, "a resource manager (none, slurm, pbs, lsf, sge, flux)");
}

Result<OnFailure> read_on_failure(std::string_view word) {
  if (word == "kill") return OnFailure::kKill;
  if (word == "notify") return OnFailure::kNotify;
  if (word == "continue") return OnFailure::kContinue;
  return wrong(word, "what a failure does (kill, notify, continue)");
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
  const auto typed = word;
  const auto equals = word.find('=');
  if (equals != std::string_view::npos) {
    edit.kind = EnvironmentEdit::Kind::kSet;
    edit.value = word.substr(equals + 1);
    word = word.substr(0, equals);
  } else if (word.starts_with('^')) {
    edit.kind = EnvironmentEdit::Kind::kUnset;
    word.remove_prefix(1);
  } else if (word == "none") {
    word = "*";
    edit.kind = EnvironmentEdit::Kind::kUnset;
  }
  if (word.empty()) return wrong(typed, "a variable (NAME, NAME=value, 'PREFIX*', ^NAME)");
  if (edit.kind == EnvironmentEdit::Kind::kSet && word.find_first_of("*?[") != word.npos)
    return fail(Code::kInvalid,
                fmt::format("'{}' is a pattern, which takes no value: want NAME=value", word));
  edit.pattern = word;
  return edit;
}

Status read_environment_file(const std::string& path, std::vector<EnvironmentEdit>& edits) {
  RLX_TRY_ASSIGN(const auto text, read_file(path));
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (trimmed(line).empty() || line.starts_with('#')) continue;
    auto edit = read_environment_edit(line);
    if (!edit)
      return fail(Code::kInvalid, fmt::format("{}:{}: {}", path, number, edit.error().text));
    edits.push_back(std::move(*edit));
  }
  return {};
}

Status read_display(std::string_view word, CommandLine& line) {
  constexpr std::pair<std::string_view, bool CommandLine::*> kWhat[] = {
      {"map", &CommandLine::show_map},
      {"bind", &CommandLine::report_bindings},
      {"alloc", &CommandLine::show_allocation},
      {"allocation", &CommandLine::show_allocation},
      {"topo", &CommandLine::show_topology},
      {"map-devel", &CommandLine::show_map},
      {"map-devel", &CommandLine::report_bindings}};
  for (const auto& part : split(word, ',')) {
    bool known = false;
    for (const auto& [name, shown] : kWhat)
      if (part == name) line.*shown = known = true;
    if (!known) return wrong(part, "something to display (map, bind, alloc, topo)");
  }
  return {};
}

}  // namespace rlx::launcher
