// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/environment.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>

namespace rlx::launcher {
namespace {

bool is_entry_of(std::string_view entry, std::string_view name) {
  return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
}

bool matches(const std::string& pattern, const std::string& entry) {
  return fnmatch(pattern.c_str(), entry.substr(0, entry.find('=')).c_str(), 0) == 0;
}

bool is_one_of(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool removes_all(const EnvironmentEdit& edit) {
  return edit.kind == EnvironmentEdit::Kind::kUnset && edit.pattern == "*";
}

}  // namespace

Environment Environment::of_this_process() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry && *entry; ++entry) entries.emplace_back(*entry);
  return Environment(std::move(entries));
}

std::optional<std::string> Environment::get(std::string_view name) const {
  for (const auto& entry : entries_)
    if (is_entry_of(entry, name)) return entry.substr(name.size() + 1);
  return std::nullopt;
}

void Environment::set(std::string_view name, std::string_view value) {
  std::string entry = fmt::format("{}={}", name, value);
  for (auto& existing : entries_)
    if (is_entry_of(existing, name)) {
      existing = std::move(entry);
      return;
    }
  entries_.push_back(std::move(entry));
}

void Environment::set_default(std::string_view name, std::string_view value) {
  if (!get(name)) set(name, value);
}

void Environment::unset(std::string_view pattern) {
  const std::string text(pattern);
  std::erase_if(entries_, [&](const std::string& entry) { return matches(text, entry); });
}

std::vector<std::string> Environment::matching(const std::string& pattern) const {
  std::vector<std::string> names;
  for (const auto& entry : entries_)
    if (matches(pattern, entry)) names.push_back(entry.substr(0, entry.find('=')));
  return names;
}

std::vector<std::string> apply_edits(Environment& environment,
                                     const std::vector<EnvironmentEdit>& edits) {
  std::vector<std::string> missing, removed;
  const Environment own = environment;
  if (std::any_of(edits.begin(), edits.end(), removes_all)) environment = Environment();
  for (const auto& edit : edits) switch (edit.kind) {
      case EnvironmentEdit::Kind::kSet:
        environment.set(edit.pattern, edit.value);
        break;
      case EnvironmentEdit::Kind::kUnset:
        if (removes_all(edit)) break;
        environment.unset(edit.pattern);
        removed.push_back(edit.pattern);
        break;
      case EnvironmentEdit::Kind::kPass:
        for (const auto& name : own.matching(edit.pattern))  // a pattern leaves out what ^NAME did
          if (name == edit.pattern || !is_one_of(removed, name))
            environment.set_default(name, *own.get(name));
        if (environment.matching(edit.pattern).empty()) missing.push_back(edit.pattern);
        break;
    }
  return missing;
}

void leave_task(Environment& environment, const std::vector<std::string>& chosen) {
  for (const char* name : {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
                           "SLURM_TASK_PID", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID"})
    if (!is_one_of(chosen, name)) environment.unset(name);
}

void move_to_this_host(Environment& environment, const Environment& own,
                       const std::vector<std::string>& chosen) {
  constexpr const char* kOfAHost[] = {"HOSTNAME",
                                      "HOST",
                                      "DISPLAY",
                                      "XAUTHORITY",
                                      "SSH_*",
                                      "XDG_RUNTIME_DIR",
                                      "XDG_SESSION_*",
                                      "DBUS_SESSION_BUS_ADDRESS",
                                      "FLUX_URI",
                                      "SLURMD_NODENAME",
                                      "SLURM_TOPOLOGY_ADDR*",
                                      "SLURM_STEP_GPUS",
                                      "*_VISIBLE_DEVICES",
                                      "ZE_AFFINITY_MASK",
                                      "GPU_DEVICE_ORDINAL"};
  for (const char* pattern : kOfAHost) {
    for (const auto& name : environment.matching(pattern))
      if (!is_one_of(chosen, name)) environment.unset(name);
    for (const auto& name : own.matching(pattern))
      if (!is_one_of(chosen, name)) environment.set(name, *own.get(name));
  }
  const auto tmpdir = environment.get("TMPDIR");
  if (!tmpdir || is_one_of(chosen, "TMPDIR") || access(tmpdir->c_str(), W_OK) == 0) return;
  environment.unset("TMPDIR");
  if (const auto here = own.get("TMPDIR")) environment.set("TMPDIR", *here);
}

void add_rank_variables(Environment& environment, const RankFacts& facts) {
  const struct {
    const char* name;
    std::uint32_t value;
  } numbers[] = {{"RLX_RANK", facts.rank},
                 {"RLX_SIZE", facts.size},
                 {"RLX_LOCAL_RANK", facts.local_rank},
                 {"RLX_LOCAL_SIZE", facts.local_size},
                 {"RLX_NODE_RANK", facts.node},
                 {"RLX_NNODES", facts.n_nodes},
                 {"OMPI_COMM_WORLD_RANK", facts.rank},
                 {"OMPI_COMM_WORLD_SIZE", facts.size},
                 {"OMPI_COMM_WORLD_LOCAL_RANK", facts.local_rank},
                 {"OMPI_COMM_WORLD_LOCAL_SIZE", facts.local_size},
                 {"OMPI_COMM_WORLD_NODE_RANK", facts.local_rank},
                 {"RANK", facts.rank},
                 {"WORLD_SIZE", facts.size},
                 {"LOCAL_RANK", facts.local_rank},
                 {"LOCAL_WORLD_SIZE", facts.local_size},
                 {"GROUP_RANK", facts.node}};
  for (const auto& number : numbers) environment.set(number.name, std::to_string(number.value));
  environment.set("RLX_JOBID", facts.job_id);
  if (facts.threads > 0) environment.set_default("OMP_NUM_THREADS", std::to_string(facts.threads));
}

void forget_outer_job(Environment& environment) {
  if (!environment.get("RLX_JOBID")) return;
  for (const char* name : {"RLX_GPU", "MASTER_ADDR", "MASTER_PORT"}) environment.unset(name);
}

void add_master(Environment& environment, std::string_view address, int port) {
  environment.set_default("MASTER_ADDR", address);
  environment.set_default("MASTER_PORT", std::to_string(port));
}

}  // namespace rlx::launcher
