// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/display.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/words.h"

namespace rlx::launcher {
namespace {

using Json = nlohmann::ordered_json;

constexpr Locality kShown[] = {Locality::kPackage, Locality::kNuma, Locality::kL3, Locality::kCore,
                               Locality::kThread};

// Indexes of the objects of one kind that `cpus` touches.
std::vector<std::size_t> touched(const Topology& topology, Locality locality, const CpuSet& cpus) {
  std::vector<std::size_t> indexes;
  const auto domains = topology.domains(locality);
  for (std::size_t i = 0; i < domains.size(); ++i)
    if (!(domains[i] & cpus).empty()) indexes.push_back(i);
  return indexes;
}

// "gpu 2 (0000:3b:00.0)", as the node numbers them or their list names them.
std::string gpu_text(const Host& host, const Place& place, bool only_own) {
  if (place.gpus.empty()) return "";
  std::vector<std::string> words;
  for (const auto index : place.gpus) {
    const VisibleGpu& gpu = host.gpus.gpus[index];
    words.push_back(gpu.pci.empty() ? gpu.entry : fmt::format("{} ({})", gpu.entry, gpu.pci));
  }
  return fmt::format("; {}gpu {}", only_own ? "sees " : "", fmt::join(words, ", "));
}

std::string bindings_text(const Plan& plan) {
  std::string out;
  for (std::size_t rank = 0; rank < plan.mapping.places.size(); ++rank) {
    const Place& place = plan.mapping.places[rank];
    const Host& host = plan.hosts[place.host];
    const auto parts = [&](Locality locality) {
      return fmt::format("{}", fmt::join(touched(host.topology, locality, place.cpus), ","));
    };
    const std::size_t cores = touched(host.topology, Locality::kCore, place.cpus).size();
    out += fmt::format("rank {} on {}: ", rank, host.name);
    if (place.cpus.empty())
      out += fmt::format("not bound (cpus {})", host.topology.allowed().text());
    else
      out += fmt::format("cpus {} ({}, numa {}, package {})", place.cpus.text(),
                         counted(cores, "core"), parts(Locality::kNuma), parts(Locality::kPackage));
    out += gpu_text(host, place, plan.ranks_see_own_gpus) + "\n";
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
    out += fmt::format("{}: {} ({})\n", host.name, counted(host.slots, "slot"), host.slots_source);
  return out;
}

std::string topology_text(const Host& host) {
  std::string out = fmt::format("{}:", host.name);
  for (const Locality locality : kShown) {
    std::vector<std::string> domains;
    for (const auto& domain : host.topology.domains(locality)) domains.push_back(domain.text());
    out += fmt::format(" {} {} [{}]", domains.size(), name_of(locality), fmt::join(domains, " "));
  }
  for (const auto& gpu : host.topology.gpus())
    out += fmt::format("\n  gpu {} {} near cpus {}", gpu.pci, gpu.name, gpu.near.text());
  return out + "\n";
}

Json allocation_json(const Plan& plan) {
  Json hosts = Json::array();
  for (const auto& host : plan.hosts) {
    Json one = {{"host", host.name}, {"slots", host.slots}, {"from", host.slots_source}};
    if (host.max_slots > 0) one["max_slots"] = host.max_slots;
    hosts.push_back(std::move(one));
  }
  return {{"from", plan.source}, {"manager", name_of(plan.manager)}, {"hosts", std::move(hosts)}};
}

Json topology_json(const Host& host) {
  Json one = {{"host", host.name}, {"cpus", host.topology.allowed().text()}};
  if (host.topology.quota() > 0) one["quota"] = host.topology.quota();
  for (const Locality locality : kShown) {
    Json& domains = one[std::string(name_of(locality))] = Json::array();
    for (const auto& domain : host.topology.domains(locality)) domains.push_back(domain.text());
  }
  Json& gpus = one["gpus"] = Json::array();
  for (const auto& gpu : host.topology.gpus())
    gpus.push_back({{"pci", gpu.pci}, {"id", gpu.name}, {"near", gpu.near.text()}});
  return one;
}

Json map_json(const Plan& plan, const std::vector<AppLine>& apps) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < plan.mapping.places.size(); ++rank) {
    const Place& place = plan.mapping.places[rank];
    ranks.push_back({{"rank", rank},
                     {"host", plan.hosts[place.host].name},
                     {"local_rank", place.local_rank},
                     {"argv", apps[place.app].argv}});
  }
  return ranks;
}

Json bindings_json(const Plan& plan) {
  Json ranks = Json::array();
  for (std::size_t rank = 0; rank < plan.mapping.places.size(); ++rank) {
    const Place& place = plan.mapping.places[rank];
    const Host& host = plan.hosts[place.host];
    Json gpus = Json::array();
    for (const auto index : place.gpus)
      gpus.push_back({{"name", host.gpus.gpus[index].entry}, {"pci", host.gpus.gpus[index].pci}});
    ranks.push_back(
        {{"rank", rank},
         {"host", host.name},
         {"bound", !place.cpus.empty()},
         {"cpus", place.cpus.empty() ? host.topology.allowed().text() : place.cpus.text()},
         {"numa", touched(host.topology, Locality::kNuma, place.cpus)},
         {"package", touched(host.topology, Locality::kPackage, place.cpus)},
         {"gpus", std::move(gpus)},
         {"sees_only_its_gpus", plan.ranks_see_own_gpus && !place.gpus.empty()}});
  }
  return ranks;
}

}  // namespace

std::string displayed(const CommandLine& line, const Plan& plan) {
  const bool map = line.show_map || line.dry_run;
  const bool bindings = line.report_bindings || line.dry_run;
  if (!line.json) {
    std::string text;
    if (line.show_allocation) text += allocation_text(plan);
    if (line.show_topology)
      for (const auto& host : plan.hosts) text += topology_text(host);
    if (map) text += map_text(plan, line.apps);
    if (bindings) text += bindings_text(plan);
    return text;
  }
  Json all = Json::object();
  if (line.show_allocation) all["allocation"] = allocation_json(plan);
  if (line.show_topology)
    for (const auto& host : plan.hosts) all["topology"].push_back(topology_json(host));
  if (map) all["map"] = map_json(plan, line.apps);
  if (bindings) all["bindings"] = bindings_json(plan);
  return all.empty() ? "" : all.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rlx::launcher
