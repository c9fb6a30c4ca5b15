// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/words.h"
#include "launcher/seats.h"

namespace rlx::launcher {
namespace {

// The j-th group of `width` cores or threads, starting again when they run out.
CpuSet take_units(const std::vector<CpuSet>& units, std::size_t j, std::size_t width) {
  CpuSet set;
  for (std::size_t k = 0; k < std::min(width, units.size()); ++k)
    set = set | units[(j * width + k) % units.size()];
  return set;
}

// What ranks mapped to `object` can be bound to: parts of it, or what it is a part of.
std::vector<CpuSet> targets(const Host& host, Locality locality, const MapOptions& options,
                            const CpuSet& object) {
  auto parts = parts_of(host.topology, locality, usable_cpus(host, options));
  std::erase_if(parts, [&](const CpuSet& part) { return (part & object).empty(); });
  return parts;
}

// A target for the j-th of k ranks inside one object, which are spread over its cores.
CpuSet bind_one(const Host& host, const CpuSet& object, const MapOptions& options, std::size_t j,
                std::size_t k) {
  const auto cores = parts_of(host.topology, Locality::kCore, object);
  const CpuSet& spread = cores[k <= cores.size() ? j * cores.size() / k : j % cores.size()];
  for (auto& part : targets(host, options.bind_object, options, object))
    if (!(part & spread).empty()) return part;
  return object;
}

// Whether pe=N can be: an object may be too small, or cores would be shared though nobody asked.
Status check_units(const Host& host, const MapOptions& options, std::size_t n_ranks,
                   std::size_t n_units) {
  if (options.cores_per_rank == 0) return {};
  const auto width = static_cast<std::size_t>(options.cores_per_rank);
  const auto unit = name_of(unit_of(options));
  const auto n_all = parts_of(host.topology, unit_of(options), usable_cpus(host, options)).size();
  if (width > n_units && n_units < n_all)
    return fail(
        Code::kInvalid,
        fmt::format("pe={}: {} wanted for a rank, but {} has {} {}: map by a larger object, "
                    "or --map-by slot:pe={}",
                    width, counted(width, unit), host.name, n_units,
                    options.object_is_gpu ? "near a gpu"
                                          : fmt::format("in one {}", name_of(options.object)),
                    width));
  if (n_ranks * width > n_units && !options.oversubscribe)
    return fail(
        Code::kInvalid,
        fmt::format("pe={}: {} wanted for {}, but {} has {} there; use --oversubscribe to share "
                    "{}s",
                    width, counted(n_ranks * width, unit), counted(n_ranks, "rank"), host.name,
                    n_units, unit));
  return {};
}

Status bind_object(const Host& host, const CpuSet& object, const MapOptions& options,
                   const std::vector<CpuSet*>& ranks) {
  const auto units = targets(host, unit_of(options), options, object);
  const std::size_t width = static_cast<std::size_t>(std::max(1, options.cores_per_rank));
  RLX_TRY(check_units(host, options, ranks.size(), units.size()));
  if (options.bind == BindTo::kCpu) {
    const auto cpus = object.cpus();
    for (std::size_t j = 0; j < ranks.size(); ++j) ranks[j]->add(cpus[j % cpus.size()]);
  } else if (binds_to_units(options) || options.cores_per_rank > 0) {
    for (std::size_t j = 0; j < ranks.size(); ++j) *ranks[j] = take_units(units, j, width);
  } else if (options.bind != BindTo::kSlice) {
    for (std::size_t j = 0; j < ranks.size(); ++j)
      *ranks[j] = bind_one(host, object, options, j, ranks.size());
  } else if (ranks.size() <= units.size()) {
    auto slices = split_cores(host.topology, object, static_cast<int>(ranks.size()));
    for (std::size_t j = 0; j < ranks.size(); ++j) *ranks[j] = std::move(slices[j]);
  }  // else more ranks than cores: the kernel balances them better than we could
  return {};
}

// Ranks by the cpus of their objects: GPUs near the same cpus share them.
std::vector<std::pair<CpuSet, std::vector<CpuSet*>>> by_cpus(
    const std::vector<CpuSet>& sets, const std::vector<std::uint32_t>& objects,
    std::vector<CpuSet>& cpus) {
  std::vector<std::pair<CpuSet, std::vector<CpuSet*>>> groups;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const CpuSet& set = sets[objects[i]];
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& known) { return known.first == set; });
    if (group == groups.end()) group = groups.insert(groups.end(), {set, {}});
    group->second.push_back(&cpus[i]);
  }
  return groups;
}

// Where nothing was said and there are GPUs, local rank i runs near GPU i, which most programs
// take. Nothing where that would crowd the cores there.
std::vector<std::uint32_t> objects_near_gpus(const Host& host, MapOptions& options,
                                             const std::vector<std::uint32_t>& objects) {
  MapOptions by_gpu = options;
  by_gpu.by = MapBy::kObject;
  by_gpu.object_is_gpu = true;
  const auto sets = objects_of(host, by_gpu);
  std::vector<std::uint32_t> near;
  for (std::uint32_t i = 0; i < objects.size(); ++i)
    near.push_back(i % static_cast<std::uint32_t>(sets.size()));
  std::vector<CpuSet> unused(objects.size());
  for (const auto& [set, ranks] : by_cpus(sets, near, unused))
    if (ranks.size() > parts_of(host.topology, Locality::kCore, set).size()) return objects;
  options = by_gpu;
  return near;
}

// Cores in groups: group i holds the parts whose middle lies in the i-th n-th of all cores.
std::vector<CpuSet> group(const std::vector<CpuSet>& parts, const std::vector<int>& cores, int n) {
  const int total = std::accumulate(cores.begin(), cores.end(), 0);
  std::vector<CpuSet> groups(static_cast<std::size_t>(n));
  int before = 0;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    const int middle_twice = 2 * before + cores[d];
    auto& into = groups[static_cast<std::size_t>(middle_twice * n / (2 * total))];
    into = into | parts[d];
    before += cores[d];
  }
  return groups;
}

// n ranks over parts with so many cores each, by largest remainder.
std::vector<int> shares(const std::vector<int>& cores, int n) {
  const int total = std::accumulate(cores.begin(), cores.end(), 0);
  std::vector<int> share;
  std::vector<std::pair<int, std::size_t>> remainder;
  for (std::size_t d = 0; d < cores.size(); ++d) {
    share.push_back(n * cores[d] / total);
    remainder.emplace_back(-(n * cores[d] % total), d);
  }
  std::sort(remainder.begin(), remainder.end());
  int left = n - std::accumulate(share.begin(), share.end(), 0);
  for (std::size_t i = 0; left > 0; ++i, --left) ++share[remainder[i].second];
  return share;
}

constexpr Locality kCutLevels[] = {Locality::kPackage, Locality::kNuma, Locality::kL3,
                                   Locality::kCore};

std::vector<CpuSet> split_at(const Topology& topology, const CpuSet& set, int n,
                             std::size_t level) {
  if (n == 1) return {set};
  const bool last = kCutLevels[level] == Locality::kCore;
  const auto parts = parts_of(topology, kCutLevels[level], set);
  if (parts.size() == 1 && !last) return split_at(topology, set, n, level + 1);
  std::vector<int> cores;
  for (const auto& part : parts)
    cores.push_back(static_cast<int>(parts_of(topology, Locality::kCore, part).size()));
  if (last || n < static_cast<int>(parts.size())) {
    auto groups = group(parts, cores, n);
    const bool uneven =
        std::any_of(groups.begin(), groups.end(), [](const CpuSet& part) { return part.empty(); });
    return uneven ? split_at(topology, set, n, level + 1) : groups;
  }
  std::vector<CpuSet> slices;
  const auto share = shares(cores, n);
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (share[d] == 0) continue;
    for (auto& slice : split_at(topology, parts[d], share[d], level + 1))
      slices.push_back(std::move(slice));
  }
  return slices;
}

}  // namespace

std::vector<CpuSet> split_cores(const Topology& topology, const CpuSet& set, int n) {
  return split_at(topology, set, n, 0);
}

Result<std::vector<CpuSet>> bind_ranks(const Host& host, const MapOptions& asked,
                                       const std::vector<std::uint32_t>& objects) {
  std::vector<CpuSet> cpus(objects.size());
  const CpuSet all = usable_cpus(host, asked);
  if (all.empty())
    return fail(Code::kInvalid,
                fmt::format("--cpu-list {} holds none of the cpus {} may use ({})",
                            asked.only.text(), host.name, host.topology.allowed().text()));
  if (!asked.only.empty()) std::fill(cpus.begin(), cpus.end(), all);  // bound no closer, but there
  if (asked.bind == BindTo::kNone) return cpus;
  const std::size_t cores = parts_of(host.topology, Locality::kCore, all).size();
  const bool plain = asked.bind == BindTo::kSlice && asked.cores_per_rank == 0;
  if (plain && objects.size() > cores) return cpus;
  MapOptions options = asked;
  const bool near = plain && !asked.by_said && objects.size() > 1 && !host.gpus.gpus.empty();
  const auto chosen = near ? objects_near_gpus(host, options, objects) : objects;
  for (const auto& [set, ranks] : by_cpus(objects_of(host, options), chosen, cpus))
    RLX_TRY(bind_object(host, set, options, ranks));
  return cpus;
}

Result<CpuSet> bind_by_line(const Host& host, const RankLine& line, const MapOptions& options) {
  const CpuSet all = usable_cpus(host, options);
  CpuSet cpus;
  for (const auto& part : line.parts) {
    const auto packages = parts_of(host.topology, Locality::kPackage, all);
    if (part.package >= static_cast<int>(packages.size()))
      return fail(Code::kInvalid, fmt::format("{}: {} has no package {}, but {}", line.source,
                                              host.name, part.package, packages.size()));
    const auto cores =
        parts_of(host.topology, Locality::kCore,
                 part.package < 0 ? all : packages[static_cast<std::size_t>(part.package)]);
    for (std::size_t i = 0; part.cores.empty() && i < cores.size(); ++i) cpus = cpus | cores[i];
    for (const auto core : part.cores.cpus()) {
      if (core >= cores.size())
        return fail(Code::kInvalid,
                    fmt::format("{}: {} has no core {}{}, but {}", line.source, host.name, core,
                                part.package < 0 ? "" : fmt::format(" in package {}", part.package),
                                cores.size()));
      cpus = cpus | cores[core];
    }
  }
  return cpus;
}

Result<std::vector<std::vector<std::uint32_t>>> choose_gpus(
    const Host& host, const MapOptions& options, const std::vector<std::uint32_t>& objects,
    const std::vector<CpuSet>& cpus, bool& shared) {
  const auto& gpus = host.gpus.gpus;
  const std::size_t each = static_cast<std::size_t>(std::max(1, options.gpus_per_rank));
  const bool by_gpu = options.object_is_gpu && options.by != MapBy::kSlot;
  const bool asked = options.gpus_per_rank > 0 || by_gpu || options.per_node == PerNode::kGpus;
  std::vector<std::vector<std::uint32_t>> chosen(objects.size());
  if (asked && gpus.size() < each)
    return fail(
        Code::kInvalid,
        fmt::format("{} wanted for each rank, but {} has {} that may be used{}",
                    counted(each, "GPU"), host.name, gpus.size(),
                    host.gpus.environment.empty() ? "" : " (" + host.gpus.environment[0] + ")"));
  const std::size_t n_groups = gpus.size() / each;
  if (n_groups == 0) return chosen;
  shared = asked && objects.size() > n_groups;
  std::vector<std::size_t> used(n_groups, 0);
  for (std::size_t i = 0; i < objects.size(); ++i) {
    std::size_t group = by_gpu ? objects[i] % n_groups : i % n_groups;
    if (!by_gpu && options.by_said && !cpus[i].empty()) {
      const auto cost = [&](std::size_t g) {
        const bool far = (gpus[g * each].near & cpus[i]).empty();
        return std::pair(used[g], far);
      };
      for (std::size_t g = 0; g < n_groups; ++g)
        if (g == 0 || cost(g) < cost(group)) group = g;
    }
    ++used[group];
    for (std::size_t k = 0; k < each; ++k)
      chosen[i].push_back(static_cast<std::uint32_t>(group * each + k));
  }
  return chosen;
}

}  // namespace rlx::launcher
