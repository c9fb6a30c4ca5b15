// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace rlx::launcher {
namespace {

// A laptop may run this many ranks a core before we think it a slip of the finger.
constexpr int kRanksPerCoreUnasked = 8;

std::vector<CpuSet> parts_of(const Topology& topology, Locality locality, const CpuSet& within) {
  std::vector<CpuSet> parts;
  for (const auto& domain : topology.domains(locality))
    if (CpuSet part = domain & within; !part.empty()) parts.push_back(std::move(part));
  return parts;
}

CpuSet usable(const Topology& topology, const MapOptions& options) {
  return options.only.empty() ? topology.allowed() : topology.allowed() & options.only;
}

std::string slot_table(int wanted, std::span<const Host> hosts) {
  std::string text = fmt::format("{} ranks wanted, but there are only", wanted);
  for (const auto& host : hosts)
    text += fmt::format("{} {} slot{} on {} ({})", &host == hosts.data() ? "" : ",", host.slots,
                        host.slots == 1 ? "" : "s", host.name, host.slots_source);
  return text + "; use --oversubscribe to start them anyway";
}

int total_slots(std::span<const Host> hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0,
                         [](int sum, const Host& host) { return sum + host.slots; });
}

// The host of each rank: filling one host after another (slot), or one rank to each in turn (node).
Result<std::vector<std::uint32_t>> choose_hosts(int n, const MapOptions& options,
                                                std::span<const Host> hosts) {
  const int slots = total_slots(hosts);
  const bool promised =
      std::any_of(hosts.begin(), hosts.end(), [](const Host& host) { return host.slots_promised; });
  const int bearable = promised ? slots : slots * kRanksPerCoreUnasked;
  if (n > bearable && !options.oversubscribe) return fail(Code::kInvalid, slot_table(n, hosts));
  std::vector<std::uint32_t> chosen;
  // Rounds over all hosts: the first respects slots, the next ones (oversubscribing) add as much
  // again.
  while (static_cast<int>(chosen.size()) < n) {
    std::vector<int> left;
    for (const auto& host : hosts) left.push_back(host.slots);
    const auto step = [&](std::size_t host) {
      --left[host];
      chosen.push_back(static_cast<std::uint32_t>(host));
    };
    if (options.by == MapBy::kNode) {
      while (std::any_of(left.begin(), left.end(), [](int l) { return l > 0; }))
        for (std::size_t host = 0; host < hosts.size(); ++host)
          if (left[host] > 0) step(host);
    } else {
      for (std::size_t host = 0; host < hosts.size(); ++host)
        while (left[host] > 0) step(host);
    }
  }
  chosen.resize(static_cast<std::size_t>(n));
  if (options.by != MapBy::kNode) std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// The object of each of n local ranks.
Result<std::vector<std::size_t>> choose_objects(int n, const MapOptions& options,
                                                std::size_t n_objects, const Host& host) {
  std::vector<std::size_t> object(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < object.size(); ++i)
    object[i] = options.by == MapBy::kPerObject ? i / static_cast<std::size_t>(options.per_object)
                                                : i % n_objects;
  if (!object.empty() && object.back() >= n_objects && options.by == MapBy::kPerObject)
    return fail(Code::kInvalid,
                fmt::format("{} ranks wanted, but --map-by ppr:{}:{} has room for {}: {} has {}", n,
                            options.per_object, name_of(options.object),
                            n_objects * static_cast<std::size_t>(options.per_object), host.name,
                            n_objects));
  if (options.rank_by == RankBy::kFill) std::stable_sort(object.begin(), object.end());
  return object;
}

// The j-th group of `width` cores, starting again when they run out.
CpuSet take_cores(const std::vector<CpuSet>& cores, std::size_t j, std::size_t width) {
  CpuSet set;
  for (std::size_t k = 0; k < width; ++k) set = set | cores[(j * width + k) % cores.size()];
  return set;
}

CpuSet domain_with(const Topology& topology, Locality locality, const CpuSet& within,
                   const CpuSet& core) {
  for (auto& part : parts_of(topology, locality, within))
    if (!(part & core).empty()) return part;
  return within;
}

// The cpus of the j-th of k ranks inside one object.
CpuSet bind_one(const Topology& topology, const CpuSet& object, const MapOptions& options,
                std::size_t j, std::size_t k) {
  const auto cores = parts_of(topology, Locality::kCore, object);
  const CpuSet& spread = cores[k <= cores.size() ? j * cores.size() / k : j % cores.size()];
  switch (options.bind) {
    case BindTo::kThread:
      return take_cores(parts_of(topology, Locality::kThread, object), j, 1);
    case BindTo::kCore:
      return take_cores(cores, j, static_cast<std::size_t>(std::max(1, options.cores_per_rank)));
    case BindTo::kL3:
      return domain_with(topology, Locality::kL3, object, spread);
    case BindTo::kNuma:
      return domain_with(topology, Locality::kNuma, object, spread);
    case BindTo::kPackage:
      return domain_with(topology, Locality::kPackage, object, spread);
    default:
      return {};
  }
}

Status bind_object(const Host& host, const CpuSet& object, const MapOptions& options,
                   const std::vector<Place*>& ranks) {
  const auto cores = parts_of(host.topology, Locality::kCore, object);
  const std::size_t width = static_cast<std::size_t>(std::max(1, options.cores_per_rank));
  if (options.cores_per_rank > 0 && ranks.size() * width > cores.size() && !options.oversubscribe)
    return fail(Code::kInvalid,
                fmt::format("pe={}: {} ranks need {} cores, but {} has {} there; use "
                            "--oversubscribe to share cores",
                            width, ranks.size(), ranks.size() * width, host.name, cores.size()));
  if (options.bind != BindTo::kSlice) {
    for (std::size_t j = 0; j < ranks.size(); ++j)
      ranks[j]->cpus = bind_one(host.topology, object, options, j, ranks.size());
  } else if (options.cores_per_rank > 0) {
    for (std::size_t j = 0; j < ranks.size(); ++j) ranks[j]->cpus = take_cores(cores, j, width);
  } else if (ranks.size() <= cores.size()) {
    auto slices = split_cores(host.topology, object, static_cast<int>(ranks.size()));
    for (std::size_t j = 0; j < ranks.size(); ++j) ranks[j]->cpus = std::move(slices[j]);
  }  // else more ranks than cores: the kernel balances them better than we could
  return {};
}

Status bind_host(const Host& host, const MapOptions& options, const std::vector<Place*>& ranks) {
  const CpuSet all = usable(host.topology, options);
  if (all.empty())
    return fail(Code::kInvalid,
                fmt::format("--cpu-list {} holds none of the cpus {} may use ({})",
                            options.only.text(), host.name, host.topology.allowed().text()));
  const bool by_object = options.by == MapBy::kObject || options.by == MapBy::kPerObject;
  const auto objects =
      by_object ? parts_of(host.topology, options.object, all) : std::vector<CpuSet>{all};
  RLX_TRY_ASSIGN(const auto chosen,
                 choose_objects(static_cast<int>(ranks.size()), options, objects.size(), host));
  if (options.bind == BindTo::kNone) return {};
  const std::size_t cores = parts_of(host.topology, Locality::kCore, all).size();
  if (options.bind == BindTo::kSlice && options.cores_per_rank == 0 && ranks.size() > cores)
    return {};
  for (std::size_t object = 0; object < objects.size(); ++object) {
    std::vector<Place*> inside;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      if (chosen[i] == object) inside.push_back(ranks[i]);
    if (!inside.empty()) RLX_TRY(bind_object(host, objects[object], options, inside));
  }
  return {};
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

Result<std::vector<int>> count_ranks(const std::vector<AppLine>& apps, const MapOptions& options,
                                     std::span<const Host> hosts) {
  std::vector<int> sizes;
  for (const auto& app : apps) {
    int n = app.n_ranks;
    if (n == 0 && apps.size() > 1)
      return fail(Code::kInvalid,
                  fmt::format("with several programs each needs its -n; {} has none", app.argv[0]));
    if (n == 0 && options.ranks_per_node > 0)
      n = options.ranks_per_node * static_cast<int>(hosts.size());
    if (n == 0 && options.by == MapBy::kPerObject)
      for (const auto& host : hosts)
        n += options.per_object *
             static_cast<int>(
                 parts_of(host.topology, options.object, usable(host.topology, options)).size());
    if (n == 0 && options.cores_per_rank > 0)
      n = std::max(1, total_slots(hosts) / options.cores_per_rank);
    sizes.push_back(n > 0 ? n : total_slots(hosts));
  }
  return sizes;
}

Result<Mapping> map_ranks(const std::vector<int>& app_sizes, const MapOptions& options,
                          std::span<const Host> hosts) {
  const int n = std::accumulate(app_sizes.begin(), app_sizes.end(), 0);
  RLX_TRY_ASSIGN(const auto chosen, choose_hosts(n, options, hosts));
  Mapping mapping;
  mapping.places.resize(static_cast<std::size_t>(n));
  std::vector<std::vector<Place*>> on_host(hosts.size());
  std::size_t rank = 0;
  for (std::size_t app = 0; app < app_sizes.size(); ++app)
    for (int i = 0; i < app_sizes[app]; ++i, ++rank) {
      Place& place = mapping.places[rank];
      auto& host = on_host[chosen[rank]];
      place.host = chosen[rank];
      place.app = static_cast<std::uint32_t>(app);
      place.local_rank = static_cast<std::uint32_t>(host.size());
      host.push_back(&place);
    }
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    RLX_TRY(bind_host(hosts[host], options, on_host[host]));
    const int cores = hosts[host].topology.slots();
    if (static_cast<int>(on_host[host].size()) <= cores) continue;
    mapping.oversubscribed = true;
    if (!options.oversubscribe)
      mapping.note =
          fmt::format("{} ranks share {} core{} of {} (--oversubscribe: no such note)",
                      on_host[host].size(), cores, cores == 1 ? "" : "s", hosts[host].name);
  }
  return mapping;
}

}  // namespace rlx::launcher
