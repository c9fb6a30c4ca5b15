// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/fd.h"

namespace rlx::launcher {
namespace {

std::size_t cores_in(const Topology& topology, const CpuSet& cpus) {
  const auto cores = topology.domains(Locality::kCore);
  return static_cast<std::size_t>(std::count_if(
      cores.begin(), cores.end(), [&](const CpuSet& core) { return !(core & cpus).empty(); }));
}

// Indexes of the objects of one kind that `cpus` touches.
std::string touched(const Topology& topology, Locality locality, const CpuSet& cpus) {
  std::vector<std::size_t> indexes;
  const auto domains = topology.domains(locality);
  for (std::size_t i = 0; i < domains.size(); ++i)
    if (!(domains[i] & cpus).empty()) indexes.push_back(i);
  return fmt::format("{}", fmt::join(indexes, ","));
}

std::uint32_t ranks_on(const Mapping& mapping, std::uint32_t host) {
  return static_cast<std::uint32_t>(
      std::count_if(mapping.places.begin(), mapping.places.end(),
                    [&](const Place& place) { return place.host == host; }));
}

}  // namespace

Result<Plan> make_plan(const CommandLine& line, std::vector<Host> hosts) {
  Plan plan;
  plan.hosts = std::move(hosts);
  RLX_TRY_ASSIGN(plan.app_sizes, count_ranks(line.apps, line.map, plan.hosts));
  RLX_TRY_ASSIGN(plan.mapping, map_ranks(plan.app_sizes, line.map, plan.hosts));
  const int n_ranks = static_cast<int>(plan.mapping.places.size());
  if (line.stdin_to >= n_ranks && line.stdin_to > 0)
    return fail(Code::kInvalid,
                fmt::format("--stdin {}: the job has ranks 0 to {}", line.stdin_to, n_ranks - 1));
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
  job.universe_size =
      std::max(job.universe_size, static_cast<std::uint32_t>(plan.mapping.places.size()));
  for (const auto& place : plan.mapping.places) {
    const Host& host = plan.hosts[place.host];
    const std::uint32_t local = ranks_on(plan.mapping, place.host);
    const std::uint32_t share =
        std::max(1u, static_cast<std::uint32_t>(host.topology.slots()) / local);
    const std::uint32_t bound = static_cast<std::uint32_t>(cores_in(host.topology, place.cpus));
    const std::uint32_t threads = local == 1 ? 0 : bound > 0 ? std::min(bound, share) : share;
    const bool all = place.cpus == host.topology.allowed();
    job.ranks.push_back(
        {place.host, place.app, place.local_rank, all ? "" : place.cpus.text(), threads, {}});
  }
  return job;
}

std::vector<AppSpec> make_apps(const CommandLine& line, const Environment& own,
                               std::vector<std::string>& notes) {
  std::vector<AppSpec> apps;
  for (const auto& app : line.apps) {
    Environment environment = own;
    for (const auto& name : apply_edits(environment, app.environment))
      notes.push_back(fmt::format("-x {}: no such variable here", name));
    if (!app.wdir.empty() && app.wdir.starts_with('/')) environment.set("PWD", app.wdir);
    AppSpec spec;
    spec.argv = app.argv;
    spec.wdir = app.wdir;
    spec.pmi1 = app.pmi1;
    spec.environment = std::move(environment).take();
    apps.push_back(std::move(spec));
  }
  return apps;
}

std::string bindings_text(const Plan& plan) {
  std::string out;
  for (std::size_t rank = 0; rank < plan.mapping.places.size(); ++rank) {
    const Place& place = plan.mapping.places[rank];
    const Host& host = plan.hosts[place.host];
    out += fmt::format("rank {} on {}: ", rank, host.name);
    if (place.cpus.empty()) {
      out += fmt::format("not bound (cpus {})\n", host.topology.allowed().text());
      continue;
    }
    const std::size_t cores = cores_in(host.topology, place.cpus);
    out += fmt::format("cpus {} ({} core{}, numa {}, package {})\n", place.cpus.text(), cores,
                       cores == 1 ? "" : "s", touched(host.topology, Locality::kNuma, place.cpus),
                       touched(host.topology, Locality::kPackage, place.cpus));
  }
  return out;
}

std::string map_text(const Plan& plan, const std::vector<AppLine>& apps) {
  std::string out;
  for (std::size_t rank = 0; rank < plan.mapping.places.size(); ++rank) {
    const Place& place = plan.mapping.places[rank];
    out += fmt::format("rank {} on {} (local rank {}): {}\n", rank, plan.hosts[place.host].name,
                       place.local_rank, fmt::join(apps[place.app].argv, " "));
  }
  return out;
}

std::string allocation_text(const Plan& plan) {
  std::string out;
  for (const auto& host : plan.hosts)
    out += fmt::format("{}: {} slot{} ({})\n", host.name, host.slots, host.slots == 1 ? "" : "s",
                       host.slots_source);
  return out;
}

std::string topology_text(const Host& host) {
  std::string out = fmt::format("{}:", host.name);
  for (const Locality locality :
       {Locality::kPackage, Locality::kNuma, Locality::kL3, Locality::kCore, Locality::kThread}) {
    std::vector<std::string> domains;
    for (const auto& domain : host.topology.domains(locality)) domains.push_back(domain.text());
    out += fmt::format(" {} {} [{}]", domains.size(), name_of(locality), fmt::join(domains, " "));
  }
  return out + "\n";
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
