// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/words.h"
#include "launcher/bind.h"
#include "launcher/seats.h"

namespace rlx::launcher {
namespace {

// The ranks of one host, in the order of their local ranks.
struct LocalRanks {
  std::vector<std::size_t> ranks;
  std::vector<std::uint32_t> objects;
};

// Hosts alike, with ranks alike, are bound alike: large jobs have one kind of them.
std::string kind_of(const Host& host, const LocalRanks& local) {
  std::string text = host.topology.signature() + host.topology.allowed().text();
  for (const auto& gpu : host.gpus.gpus) text += " " + gpu.near.text();
  for (const auto object : local.objects) text += fmt::format(",{}", object);
  return text;
}

void add_note(std::string& note, const std::string& more) {
  note += (note.empty() ? "" : "; ") + more;
}

class Mapper {
 public:
  Mapper(const MapOptions& options, std::span<const Host> hosts)
      : options_(options), hosts_(hosts) {}

  Result<Mapping> map(const std::vector<std::vector<Seat>>& seats) {
    std::vector<LocalRanks> on_host(hosts_.size());
    for (std::size_t app = 0; app < seats.size(); ++app)
      for (const auto& seat : seats[app]) {
        LocalRanks& local = on_host[seat.host];
        local.ranks.push_back(mapping_.places.size());
        local.objects.push_back(seat.object);
        mapping_.places.push_back({seat.host, static_cast<std::uint32_t>(app),
                                   static_cast<std::uint32_t>(local.ranks.size() - 1)});
      }
    for (std::size_t host = 0; host < hosts_.size(); ++host)
      if (!on_host[host].ranks.empty()) RLX_TRY(bind(hosts_[host], on_host[host]));
    add_notes();
    return std::move(mapping_);
  }

 private:
  struct Bound {
    std::vector<CpuSet> cpus;
    std::vector<std::uint32_t> n_cores;
    std::vector<std::vector<std::uint32_t>> gpus;
    bool shares_gpus = false;
    CpuSet absent = {};  // of --cpu-list
  };

  Result<Bound> bound(const Host& host, const LocalRanks& local) const {
    Bound bound;
    if (options_.by == MapBy::kRankFile) {
      for (const auto rank : local.ranks) {
        RLX_TRY_ASSIGN(auto cpus, bind_by_line(host, options_.rank_lines[rank], options_));
        bound.cpus.push_back(std::move(cpus));
      }
    } else {
      RLX_TRY_ASSIGN(bound.cpus, bind_ranks(host, options_, local.objects));
    }
    for (const auto& cpus : bound.cpus)
      bound.n_cores.push_back(
          static_cast<std::uint32_t>(parts_of(host.topology, Locality::kCore, cpus).size()));
    RLX_TRY_ASSIGN(bound.gpus,
                   choose_gpus(host, options_, local.objects, bound.cpus, bound.shares_gpus));
    for (const unsigned cpu : options_.only.cpus())
      if (!host.topology.allowed().has(cpu)) bound.absent.add(cpu);
    return bound;
  }

  Status bind(const Host& host, const LocalRanks& local) {
    const std::string kind = options_.by == MapBy::kRankFile ? host.name : kind_of(host, local);
    auto known = known_.find(kind);
    if (known == known_.end()) {
      RLX_TRY_ASSIGN(auto fresh, bound(host, local));
      known = known_.emplace(kind, std::move(fresh)).first;
    }
    for (std::size_t i = 0; i < local.ranks.size(); ++i) {
      Place& place = mapping_.places[local.ranks[i]];
      place.cpus = known->second.cpus[i];
      place.n_cores = known->second.n_cores[i];
      place.gpus = known->second.gpus[i];
    }
    count_crowd(host, static_cast<int>(local.ranks.size()), known->second.shares_gpus);
    if (const CpuSet& absent = known->second.absent; !absent.empty() && n_lacking_cpus_++ == 0)
      cpu_note_ = fmt::format("--cpu-list {} names cpus that {} may not use: {} (it may use {})",
                              options_.only.text(), host.name, absent.text(),
                              host.topology.allowed().text());
    return {};
  }

  void count_crowd(const Host& host, int n, bool shares_gpus) {
    if (shares_gpus && n_sharing_gpus_++ == 0)
      gpu_note_ = fmt::format("{} ranks share {} of {}", n, counted(host.gpus.gpus.size(), "GPU"),
                              host.name);
    const int cores = host.topology.slots();
    if (n <= cores) return;
    mapping_.oversubscribed = true;
    if (n_crowded_++ == 0)
      core_note_ = fmt::format("{} ranks share {} of {}", n, counted(cores, "core"), host.name);
  }

  void add_notes() {
    const auto more = [](std::size_t n) {
      return n > 1 ? " and so on " + counted(n - 1, "more host") : "";
    };
    if (n_crowded_ > 0 && !options_.oversubscribe)
      add_note(mapping_.note, core_note_ + more(n_crowded_) + " (--oversubscribe silences this)");
    if (n_lacking_cpus_ > 0) add_note(mapping_.note, cpu_note_ + more(n_lacking_cpus_));
    if (n_sharing_gpus_ > 0) add_note(mapping_.note, gpu_note_ + more(n_sharing_gpus_));
  }

  const MapOptions& options_;
  std::span<const Host> hosts_;
  Mapping mapping_;
  std::map<std::string, Bound> known_;
  std::string core_note_, gpu_note_, cpu_note_;
  std::size_t n_crowded_ = 0, n_sharing_gpus_ = 0, n_lacking_cpus_ = 0;
};

}  // namespace

Status check_map_options(const MapOptions& options) {
  const bool by_object = options.by == MapBy::kObject || options.by == MapBy::kPerObject;
  const bool by_hand = options.by == MapBy::kSequence || options.by == MapBy::kRankFile;
  const bool pe = options.cores_per_rank > 0;
  const bool binds_to_cores =
      options.bind == BindTo::kSlice ||
      (options.bind == BindTo::kObject && options.bind_object == Locality::kCore);
  const struct {
    bool wrong;
    const char* text;
  } rules[] = {
      {options.span && options.by != MapBy::kObject,
       "span takes the objects of all hosts in turn: it needs --map-by package, numa, l3, l2, "
       "l1, core, hwt or gpu"},
      {options.rank_by == RankBy::kFill && !by_object,
       "--rank-by fill numbers object by object: it needs --map-by an object (package, numa, ...)"},
      {options.rank_by != RankBy::kAsMapped && by_hand,
       "--rank-by: with seq and rank files the order is given already"},
      {pe && options.bind == BindTo::kNone,
       "pe=N binds each rank to N cores, and --bind-to none to nothing: leave one out"},
      {pe && options.bind != BindTo::kSlice && !binds_to_units(options),
       "pe=N binds each rank to N cores or hwts: --bind-to can only be core or hwt beside it"},
      {!options.rank_lines.empty() && options.by != MapBy::kRankFile,
       "--rankfile and --map-by both say where ranks go: leave one out"},
      {pe && options.by == MapBy::kRankFile, "pe=N: the rank file says which cores a rank gets"},
      {!binds_to_cores && options.by == MapBy::kRankFile,
       "--bind-to: the rank file says which cores a rank gets, and a line without slot= binds to "
       "none: leave it out"},
      {options.per_node != PerNode::kUnsaid && options.by == MapBy::kRankFile,
       "--nproc-per-node and --rankfile both say how many ranks a host gets: leave one out"},
      {options.per_node != PerNode::kUnsaid && (options.by == MapBy::kPerObject || by_hand),
       "--nproc-per-node and --map-by both say how many ranks a host gets: leave one out"},
      {options.gpus_per_rank > 1 && options.by == MapBy::kPerObject && options.object_is_gpu,
       "ppr:N:gpu puts ranks on one GPU each, --gpus-per-rank gives them several: leave one out"},
  };
  for (const auto& rule : rules)
    if (rule.wrong) return fail(Code::kInvalid, rule.text);
  return {};
}

Result<std::vector<int>> count_ranks(const std::vector<AppLine>& apps, const MapOptions& options,
                                     std::span<const Host> hosts, const NamedHosts& named) {
  std::vector<int> sizes;
  std::int64_t total = 0;
  for (std::size_t i = 0; i < apps.size(); ++i) {
    const AppLine& app = apps[i];
    if (app.n_ranks == 0 && apps.size() > 1)
      return fail(Code::kInvalid,
                  fmt::format("with several programs each needs its -n; {} has none", app.argv[0]));
    std::int64_t n = app.n_ranks;
    if (n == 0 && options.by == MapBy::kSequence)
      n = static_cast<std::int64_t>(named.of_app.empty() || named.of_app[0].empty()
                                        ? named.mentions.size()
                                        : named.of_app[0].size());
    else if (n == 0 && options.by == MapBy::kRankFile)
      n = static_cast<std::int64_t>(options.rank_lines.size());
    else if (n == 0)
      for (const auto& host : hosts) n += room_on(host, options);
    n = std::max<std::int64_t>(n, 1);
    total += n;
    if (total > kMaxRanks)
      return fail(Code::kInvalid,
                  fmt::format("{} ranks wanted, but a job has at most {}", total, kMaxRanks));
    sizes.push_back(static_cast<int>(n));
  }
  return sizes;
}

Result<Mapping> map_ranks(const std::vector<int>& app_sizes, const MapOptions& options,
                          std::span<const Host> hosts, const NamedHosts& named) {
  RLX_TRY(check_map_options(options));
  RLX_TRY_ASSIGN(const auto seats, choose_seats(app_sizes, options, hosts, named));
  return Mapper(options, hosts).map(seats);
}

}  // namespace rlx::launcher
