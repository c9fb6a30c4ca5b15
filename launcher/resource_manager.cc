// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: the manuals of salloc and sbatch (Slurm 22.05), qsub (PBS Professional, Grid Engine),
// bsub (LSF).
#include "launcher/resource_manager.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/words.h"
#include "launcher/flux.h"
#include "launcher/host_file.h"
#include "launcher/host_ranges.h"
#include "launcher/hosts.h"
#include "launcher/option_values.h"
#include "launcher/process.h"

namespace rlx::launcher {
namespace {

using Found = Result<std::optional<ManagedHosts>>;

struct Question {
  const Environment& environment;
  const std::string& hostname;
  bool is_forced;
  std::vector<std::string>& notes;

  // The first of these variables that is set and not empty, "" if none is.
  std::string value(std::initializer_list<std::string_view> names) const {
    for (const auto name : names)
      if (auto found = environment.get(name); found && !found->empty()) return *found;
    return "";
  }
};

HostEntry host_of(std::string name, int slots, std::string source) {
  HostEntry host;
  host.name = std::move(name);
  host.slots = slots;
  host.source = std::move(source);
  return host;
}

tl::unexpected<Error> wrong(const std::string& variable, const std::string& what) {
  return fail(Code::kInvalid,
              fmt::format("{}: {}; --rm none takes no notice of it", variable, what));
}

// --- Slurm ---

struct SlurmSlots {
  std::vector<int> counts;  // one a node; empty: not known
  std::string source;
  bool at_most_cores = false;
};

// Without -n and --ntasks-per-node Slurm counts one task a node, though whole nodes may be ours:
// then cpus count. They also do inside a step of fewer nodes, whose tasks are not the job's.
SlurmSlots slurm_slots(const Question& ask, std::size_t n_nodes) {
  const auto counts = [&](const char* name) {
    const std::string text = ask.value({name});
    auto read = read_slurm_counts(text);
    if (read && read->size() == n_nodes) return *read;
    if (!text.empty())
      ask.notes.push_back(fmt::format("{}={} is not used: it is no count for each of {} nodes",
                                      name, excerpt(text), n_nodes));
    return std::vector<int>();
  };
  SlurmSlots slots;
  if (!ask.value({"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NTASKS_PER_NODE"}).empty()) {
    slots.counts = counts("SLURM_TASKS_PER_NODE");
    slots.source = "SLURM_TASKS_PER_NODE=" + ask.value({"SLURM_TASKS_PER_NODE"});
  }
  if (!slots.counts.empty()) return slots;
  slots.counts = counts("SLURM_JOB_CPUS_PER_NODE");
  slots.at_most_cores = true;
  slots.source = "SLURM_JOB_CPUS_PER_NODE=" + ask.value({"SLURM_JOB_CPUS_PER_NODE"});
  const auto per_task = read_count(ask.value({"SLURM_CPUS_PER_TASK"}), 1);
  if (!per_task) return slots;
  slots.source += fmt::format(", SLURM_CPUS_PER_TASK={}", *per_task);
  for (int& count : slots.counts) count = std::max(1, count / *per_task);
  return slots;
}

Found ask_slurm(const Question& ask) {
  const std::string id = ask.value({"SLURM_JOB_ID", "SLURM_JOBID"});
  const std::string list = ask.value({"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  const std::string groups = ask.value({"SLURM_HET_SIZE", "SLURM_PACK_SIZE"});
  if (id.empty() || (list.empty() && groups.empty())) return std::nullopt;
  if (!groups.empty())
    return fail(Code::kUnsupported,
                fmt::format("Slurm job {} is heterogeneous ({} groups), which rlxrun does not "
                            "support; use srun --het-group, or --rm none with --host",
                            id, groups));
  const auto expanded = expand_host_list(list);
  if (!expanded) return wrong("SLURM_JOB_NODELIST", expanded.error().text);
  const auto& names = *expanded;
  const std::string own_node = ask.value({"SLURMD_NODENAME"});
  const auto is_here = [&](const std::string& name) {
    return own_node.empty() ? is_this_host(name, ask.hostname) : name == own_node;
  };
  if (!ask.is_forced && std::none_of(names.begin(), names.end(), is_here) &&
      find_program("srun", "", ask.value({"PATH"})).exit_code != 0) {
    ask.notes.push_back(fmt::format(
        "the variables of Slurm job {} are not used: this host, {}, is not in its {} and there is "
        "no srun here",
        id, ask.hostname, list));
    return std::nullopt;
  }
  const SlurmSlots slots = slurm_slots(ask, names.size());
  ManagedHosts found{Manager::kSlurm, "Slurm job " + id, "SLURM_JOB_NODELIST=" + list, {}};
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto& host = found.hosts.emplace_back(slots.counts.empty()
                                              ? host_of(names[i], 0, found.job)
                                              : host_of(names[i], slots.counts[i], slots.source));
    host.at_most_cores = slots.at_most_cores && !slots.counts.empty();
    host.here = is_here(names[i]);
  }
  return found;
}

// --- PBS, LSF, Grid Engine: a file with a line for each slot, or names with numbers ---

// One host name a line, repeated for each slot.
Result<std::vector<HostEntry>> read_slot_lines(const std::string& path,
                                               const std::string& variable) {
  const auto text = read_file(path);
  if (!text) return wrong(variable, text.error().text);
  std::vector<HostEntry> hosts;
  for (const auto& name : words_of(*text)) hosts.push_back(host_of(name, 1, variable));
  if (hosts.empty()) return wrong(variable, path + " names no host");
  if (hosts.size() > kMaxHosts * std::size_t{64}) return wrong(variable, path + " is too long");
  return hosts;
}

Found ask_pbs(const Question& ask) {
  const std::string path = ask.value({"PBS_NODEFILE"});
  if (path.empty()) return std::nullopt;
  ManagedHosts found{
      Manager::kPbs, "PBS job " + ask.value({"PBS_JOBID"}), "PBS_NODEFILE=" + path, {}};
  RLX_TRY_ASSIGN(found.hosts, read_slot_lines(path, "PBS_NODEFILE"));
  return found;
}

Found ask_lsf(const Question& ask) {
  const std::string list = ask.value({"LSB_MCPU_HOSTS"});
  const std::string path = ask.value({"LSB_DJOB_HOSTFILE"});
  if (list.empty() && path.empty()) return std::nullopt;
  ManagedHosts found{Manager::kLsf, "LSF job " + ask.value({"LSB_JOBID"}), "", {}};
  if (list.empty()) {
    found.how = "LSB_DJOB_HOSTFILE=" + path;
    RLX_TRY_ASSIGN(found.hosts, read_slot_lines(path, "LSB_DJOB_HOSTFILE"));
    return found;
  }
  found.how = "LSB_MCPU_HOSTS=" + list;
  const auto words = words_of(list);
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const auto count = read_count(i + 1 < words.size() ? words[i + 1] : "", 1, kMaxSlots);
    if (!count)
      return wrong("LSB_MCPU_HOSTS", fmt::format("'{}' is not 'HOST SLOTS ...'", excerpt(list)));
    found.hosts.push_back(host_of(words[i], *count, "LSB_MCPU_HOSTS"));
  }
  if (found.hosts.empty()) return wrong("LSB_MCPU_HOSTS", "names no host");
  return found;
}

Found ask_sge(const Question& ask) {
  const std::string path = ask.value({"PE_HOSTFILE"});
  if (path.empty()) return std::nullopt;
  const auto text = read_file(path);
  if (!text) return wrong("PE_HOSTFILE", text.error().text);
  ManagedHosts found{
      Manager::kSge, "Grid Engine job " + ask.value({"JOB_ID"}), "PE_HOSTFILE=" + path, {}};
  int number = 0;
  for (const auto& line : split(*text, '\n')) {
    ++number;
    const auto words = words_of(line);
    if (words.empty()) continue;
    const auto count = read_count(words.size() > 1 ? words[1] : "", 1, kMaxSlots);
    if (!count)
      return wrong("PE_HOSTFILE", fmt::format("{}:{}: '{}' is not 'HOST SLOTS QUEUE CPUS'", path,
                                              number, excerpt(line)));
    found.hosts.push_back(host_of(words[0], *count, fmt::format("{}:{}", path, number)));
  }
  if (found.hosts.empty()) return wrong("PE_HOSTFILE", path + " names no host");
  return found;
}

// One rank of Flux on each host, the first, where it has several. Its daemons and this process are
// bound to what is theirs of a host, so that cores need not be asked for.
Found ask_flux(const Question& ask) {
  if (ask.value({"FLUX_URI"}).empty()) return std::nullopt;
  RLX_TRY_ASSIGN(const auto flux, ask_flux_for_hosts(ask.environment));
  const std::string id = ask.value({"FLUX_JOB_ID"});
  ManagedHosts found{
      Manager::kFlux, id.empty() ? "this Flux instance" : "Flux job " + id, flux.command, {}};
  std::set<std::string> seen;
  for (std::size_t rank = 0; rank < flux.names.size(); ++rank) {
    if (!seen.insert(flux.names[rank]).second) continue;
    found.hosts.push_back(host_of(flux.names[rank], 0, found.job));
    found.hosts.back().flux_rank = static_cast<int>(rank);
  }
  return found;
}

struct Reader {
  Manager manager;
  Found (*ask)(const Question&);
  const char* sign;  // what shows that the manager is there
};
constexpr Reader kReaders[] = {{Manager::kSlurm, ask_slurm, "SLURM_JOB_ID and SLURM_JOB_NODELIST"},
                               {Manager::kPbs, ask_pbs, "PBS_NODEFILE"},
                               {Manager::kLsf, ask_lsf, "LSB_MCPU_HOSTS or LSB_DJOB_HOSTFILE"},
                               {Manager::kSge, ask_sge, "PE_HOSTFILE"},
                               {Manager::kFlux, ask_flux, "FLUX_URI"}};

}  // namespace

// slurmd says it to all that it starts, and salloc to nobody. (SLURM_STEP_ID is not set in a batch
// script, and variables of a task, such as SLURM_TASK_PID, are not in our ranks.)
bool is_in_slurm_task(const Environment& environment) {
  return !environment.get("SLURMD_NODENAME").value_or("").empty();
}

Result<std::vector<int>> read_slurm_counts(std::string_view text) {
  std::vector<int> counts;
  for (std::string_view part : split(text, ',')) {
    int times = 1;
    if (const auto open = part.find("(x"); open != std::string_view::npos && part.ends_with(')')) {
      RLX_TRY_ASSIGN(times, read_count(part.substr(open + 2, part.size() - open - 3), 1));
      part = part.substr(0, open);
    }
    RLX_TRY_ASSIGN(const int count, read_count(part, 1));
    if (count > kMaxSlots || counts.size() + static_cast<std::size_t>(times) > kMaxHosts)
      return fail(Code::kInvalid, fmt::format("'{}' is too much", excerpt(part)));
    counts.insert(counts.end(), static_cast<std::size_t>(times), count);
  }
  return counts;
}

Result<std::optional<ManagedHosts>> hosts_of_manager(std::optional<Manager> wanted,
                                                     const Environment& environment,
                                                     const std::string& hostname,
                                                     std::vector<std::string>& notes) {
  const Question ask{environment, hostname, wanted.has_value(), notes};
  for (const auto& reader : kReaders) {
    if (wanted && *wanted != reader.manager) continue;
    RLX_TRY_ASSIGN(auto found, reader.ask(ask));
    if (found) {
      for (const auto& host : found->hosts)
        if (auto status = check_names(host); !status)
          return wrong(found->how.substr(0, found->how.find('=')), status.error().text);
      return found;
    }
    if (wanted)
      return fail(Code::kInvalid, fmt::format("--rm {}: there is no such job here ({} not set)",
                                              name_of(*wanted), reader.sign));
  }
  return std::nullopt;
}

}  // namespace rlx::launcher
