// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/plan.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>

#include "base/fd.h"

namespace rlx::launcher {
namespace {

std::vector<std::uint32_t> ranks_on_hosts(const Plan& plan) {
  std::vector<std::uint32_t> counts(plan.hosts.size(), 0);
  for (const auto& place : plan.mapping.places) ++counts[place.host];
  return counts;
}

bool sets(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](std::string_view entry) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

using Names = std::vector<std::string_view>;
Names gpu_variables_in(const std::vector<std::string>& environment) {
  Names names;
  for (const auto name : kGpuVariables)
    if (sets(environment, name)) names.push_back(name);
  return names;
}

// What a rank must be told of GPUs beyond its app's environment.
std::vector<std::string> gpu_environment(const Plan& plan, const Place& place,
                                         const Names& names_in_app) {
  const Host& host = plan.hosts[place.host];
  std::vector<std::string> entries;
  // Those of the launcher's own environment mean nothing on a node that has others, or none.
  for (const auto name : names_in_app)
    if (!sets(host.gpus.environment, name)) entries.emplace_back(name);
  entries.insert(entries.end(), host.gpus.environment.begin(), host.gpus.environment.end());
  const bool only_own = plan.ranks_see_own_gpus && !place.gpus.empty();
  if (only_own)
    for (auto& entry : show_only(host.gpus, place.gpus)) entries.push_back(std::move(entry));
  if (place.app < plan.own_gpu_variables.size())
    for (const auto& own : plan.own_gpu_variables[place.app])
      std::erase_if(entries, [&](const std::string& entry) {
        return entry.substr(0, entry.find('=')) == own;
      });
  if (!place.gpus.empty())
    entries.push_back(fmt::format("RLX_GPU={}", only_own ? 0 : place.gpus.front()));
  return entries;
}

// Of standard input: the ranks that --stdin and --pty name must be, and be the same.
Status check_reader(const CommandLine& line, int n_ranks) {
  const int to = line.stdin_to.value_or(0);
  if (to >= n_ranks && to > 0)
    return fail(Code::kInvalid,
                fmt::format("--stdin {}: the job has ranks 0 to {}", to, n_ranks - 1));
  if (!line.pty_rank) return {};
  const int pty = static_cast<int>(*line.pty_rank);
  if (pty >= n_ranks)
    return fail(Code::kInvalid,
                fmt::format("--pty={}: the job has ranks 0 to {}", pty, n_ranks - 1));
  if (line.stdin_to.value_or(pty) != pty)
    return fail(Code::kInvalid,
                fmt::format("--pty={} beside --stdin {}: the rank with the terminal reads standard "
                            "input, and no other",
                            pty,
                            to == kStdinAll    ? "all"
                            : to == kStdinNone ? "none"
                                               : std::to_string(to)));
  return {};
}

}  // namespace

Result<Plan> make_plan(const CommandLine& line, std::vector<Host> hosts,
                       const Allocation& allocation) {
  Plan plan;
  plan.manager = allocation.manager;
  plan.source = allocation.source;
  plan.hosts = std::move(hosts);
  plan.ranks_see_own_gpus = line.map.gpus_per_rank > 0;
  for (const auto& app : line.apps) {
    auto& own = plan.own_gpu_variables.emplace_back();
    for (const auto name : kGpuVariables)
      for (const auto& edit : app.environment)
        if (edit.pattern == name) own.emplace_back(name);
  }
  const NamedHosts named{allocation.mentions, allocation.of_app};
  RLX_TRY_ASSIGN(plan.app_sizes, count_ranks(line.apps, line.map, plan.hosts, named));
  RLX_TRY_ASSIGN(plan.mapping, map_ranks(plan.app_sizes, line.map, plan.hosts, named));
  const int n_ranks = static_cast<int>(plan.mapping.places.size());
  RLX_TRY(check_reader(line, n_ranks));
  return plan;
}

JobSpec make_job(JobRequest request, const Plan& plan) {
  JobSpec job;
  job.number = request.number;
  job.name = std::move(request.name);
  job.id = std::move(request.id);
  job.apps = std::move(request.apps);
  job.output = std::move(request.output);
  job.oversubscribed = plan.mapping.oversubscribed;
  for (const auto& host : plan.hosts) {
    job.nodes.push_back(host.name);
    job.universe_size += static_cast<std::uint32_t>(host.slots);
  }
  if (request.universe_size > 0)
    job.universe_size = static_cast<std::uint32_t>(request.universe_size);
  job.universe_size =
      std::max(job.universe_size, static_cast<std::uint32_t>(plan.mapping.places.size()));
  const auto local_sizes = ranks_on_hosts(plan);
  std::vector<Names> gpu_variables;  // of each app
  for (const auto& app : job.apps) gpu_variables.push_back(gpu_variables_in(app.environment));
  for (const auto& place : plan.mapping.places) {
    const Host& host = plan.hosts[place.host];
    const std::uint32_t local = local_sizes[place.host];
    const std::uint32_t share =
        std::max(1u, static_cast<std::uint32_t>(host.topology.slots()) / local);
    const std::uint32_t threads = local == 1          ? 0
                                  : place.n_cores > 0 ? std::min(place.n_cores, share)
                                                      : share;
    const bool all = place.cpus == host.topology.allowed();
    job.ranks.push_back({place.host, place.app, place.local_rank, all ? "" : place.cpus.text(),
                         threads, gpu_environment(plan, place, gpu_variables[place.app])});
  }
  return job;
}

std::vector<AppSpec> make_apps(const CommandLine& line, const Environment& own,
                               std::vector<std::string>& notes) {
  std::vector<AppSpec> apps;
  // A batch script that is queued again counts its own attempts.
  const int before = std::atoi(own.get("RLX_RESTART_COUNT").value_or("0").c_str());
  const std::string attempt = std::to_string(std::max(before, 0) + line.restarted);
  for (const auto& app : line.apps) {
    Environment environment = own;
    forget_outer_job(environment);
    environment.set("RLX_RESTART_COUNT", attempt);
    environment.set("TORCHELASTIC_RESTART_COUNT", attempt);
    for (const auto& name : apply_edits(environment, app.environment))
      notes.push_back(fmt::format("-x {}: no such variable here", name));
    if (!app.wdir.empty() && app.wdir.starts_with('/')) environment.set("PWD", app.wdir);
    AppSpec spec;
    spec.argv = app.argv;
    spec.wdir = app.wdir;
    spec.pmi1 = app.pmi1;
    for (const auto& edit : app.environment) {
      if (edit.kind == EnvironmentEdit::Kind::kUnset) continue;
      for (auto& name : environment.matching(edit.pattern)) spec.chosen.push_back(std::move(name));
    }
    spec.environment = std::move(environment).take();
    apps.push_back(std::move(spec));
  }
  return apps;
}

int free_port() {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  constexpr int kUsualPort = 29500;  // when there is no network at all, none is as good as another
  if (bind(fd.get(), generic, size) != 0 || getsockname(fd.get(), generic, &size) != 0)
    return kUsualPort;
  return ntohs(address.sin_port);
}

std::string random_id() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number)
    number = static_cast<std::uint64_t>(getpid());
  return fmt::format("{:016x}", number);
}

}  // namespace rlx::launcher
