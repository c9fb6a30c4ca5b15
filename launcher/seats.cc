// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/seats.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/words.h"
#include "launcher/hosts.h"

namespace rlx::launcher {
namespace {

// A laptop may run this many ranks a core before we think it a slip of the finger.
constexpr int kRanksPerCoreUnasked = 8;

bool has_objects(const MapOptions& options) {
  return options.by == MapBy::kObject || options.by == MapBy::kPerObject;
}

// Hosts that some app may use, each once, in the order they were named.
std::vector<std::uint32_t> hosts_of_app(std::size_t app, std::size_t n_hosts,
                                        const NamedHosts& named) {
  std::vector<std::uint32_t> order;
  std::vector<bool> seen(n_hosts, false);
  if (app < named.of_app.size())
    for (const auto host : named.of_app[app])
      if (!seen[host]) {
        seen[host] = true;
        order.push_back(host);
      }
  if (!order.empty()) return order;
  order.resize(n_hosts);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

std::string slot_table(int wanted, std::span<const Host> hosts, const MapOptions& options) {
  constexpr std::size_t kShown = 16;
  std::size_t width = 4;
  for (const auto& host : hosts.first(std::min(hosts.size(), kShown)))
    width = std::max(width, host.name.size());
  std::int64_t total = 0;
  bool capped = false;
  std::string rows;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const Host& host = hosts[i];
    total += host.slots;
    const bool cap = host.max_slots > 0 && (options.oversubscribe || host.max_slots <= host.slots);
    capped = capped || cap;
    if (i < kShown)
      rows +=
          fmt::format("  {:<{}}  {:>5}  {}{}{}\n", host.name, width, host.slots, host.slots_source,
                      host.max_slots > 0 ? fmt::format(", max_slots={}", host.max_slots) : "",
                      host.ranks_there > 0 ? fmt::format(", {} in use", host.ranks_there) : "");
  }
  if (hosts.size() > kShown)
    rows += fmt::format("  and {}\n", counted(hosts.size() - kShown, "more host"));
  return fmt::format(
      "{} wanted, but there {} only {}:\n  {:<{}}  slots  from\n{}{}", counted(wanted, "rank"),
      total == 1 ? "is" : "are", counted(total, "slot"), "host", width, rows,
      capped && options.oversubscribe ? "max_slots is a limit even for --oversubscribe"
                                      : "--oversubscribe starts them anyway");
}

// Seats are handed out in rounds: in each, every host gets as many ranks as it has room for; so
// that ranks share evenly where there are more than there is room.
class Seating {
 public:
  Seating(const MapOptions& options, std::span<const Host> hosts)
      : options_(options), hosts_(hosts), n_objects_(hosts.size(), 1) {
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      room_.push_back(room_on(hosts[host], options));
      used_.push_back(hosts[host].ranks_there);
      left_.push_back(std::max(0, room_[host] - hosts[host].ranks_there));
      if (has_objects(options)) n_objects_[host] = objects_of(hosts[host], options).size();
    }
  }

  // n ranks on hosts of this order; false if they do not fit.
  bool seat(int n, const std::vector<std::uint32_t>& order, std::vector<Seat>& seats) {
    const auto wanted = static_cast<std::size_t>(n);
    for (bool first = true; seats.size() < wanted; first = false) {
      const std::size_t before = seats.size();
      if (!first) left_ = room_;
      if (options_.span && has_objects(options_))
        across_objects(wanted, order, seats);
      else if (options_.by == MapBy::kNode)
        one_on_each(wanted, order, seats);
      else
        host_by_host(wanted, order, seats);
      if (seats.size() == before && !first) return false;
    }
    return true;
  }

 private:
  // Ranks the host takes at most.
  std::int64_t limit(std::uint32_t host) const {
    const Host& h = hosts_[host];
    std::int64_t most = h.slots_promised ? h.slots : std::int64_t{h.slots} * kRanksPerCoreUnasked;
    if (options_.oversubscribe) most = INT32_MAX;
    const bool is_exact = options_.per_node == PerNode::kNumber || options_.by == MapBy::kPerObject;
    if (is_exact) most = std::min<std::int64_t>(most, room_[host]);
    return h.max_slots > 0 ? std::min<std::int64_t>(most, h.max_slots) : most;
  }

  bool take(std::uint32_t host, std::size_t object, std::vector<Seat>& seats) {
    if (left_[host] <= 0 || used_[host] >= limit(host)) return false;
    --left_[host];
    ++used_[host];
    seats.push_back({host, static_cast<std::uint32_t>(object)});
    return true;
  }
  std::size_t next_object(std::uint32_t host) const {
    const auto i = static_cast<std::size_t>(used_[host]);
    const auto per = static_cast<std::size_t>(std::max(1, options_.per_object));
    return (options_.by == MapBy::kPerObject ? i / per : i) % n_objects_[host];
  }

  void host_by_host(std::size_t wanted, const std::vector<std::uint32_t>& order,
                    std::vector<Seat>& seats) {
    for (const auto host : order)
      while (seats.size() < wanted && take(host, next_object(host), seats)) continue;
  }

  void one_on_each(std::size_t wanted, const std::vector<std::uint32_t>& order,
                   std::vector<Seat>& seats) {
    for (bool some = true; some && seats.size() < wanted;) {
      some = false;
      for (const auto host : order)
        if (seats.size() < wanted) some = take(host, next_object(host), seats) || some;
    }
  }

  // One on each object of the first host, then of the next, and again from the first.
  void across_objects(std::size_t wanted, const std::vector<std::uint32_t>& order,
                      std::vector<Seat>& seats) {
    for (bool some = true; some && seats.size() < wanted;) {
      some = false;
      for (const auto host : order)
        for (std::size_t object = 0; object < n_objects_[host] && seats.size() < wanted; ++object)
          some = take(host, object, seats) || some;
    }
  }

  const MapOptions& options_;
  std::span<const Host> hosts_;
  std::vector<int> room_, left_;
  std::vector<std::int64_t> used_;
  std::vector<std::size_t> n_objects_;
};

// As the ranks of one app are numbered.
void number(std::vector<Seat>& seats, const std::vector<std::uint32_t>& order,
            const MapOptions& options) {
  std::map<std::uint32_t, std::size_t> position;
  for (std::size_t i = 0; i < order.size(); ++i) position[order[i]] = i;
  const bool as_seated = options.by == MapBy::kNode || options.span;
  const auto by_host = [&](const Seat& a, const Seat& b) {
    return position[a.host] < position[b.host];
  };
  if (options.rank_by == RankBy::kAsMapped && as_seated) return;
  std::stable_sort(seats.begin(), seats.end(), by_host);
  if (options.rank_by == RankBy::kFill)
    std::stable_sort(seats.begin(), seats.end(), [&](const Seat& a, const Seat& b) {
      return by_host(a, b) || (a.host == b.host && a.object < b.object);
    });
  if (options.rank_by != RankBy::kNode) return;
  std::map<std::uint32_t, std::size_t> turn;  // of a host's seats so far
  std::vector<std::pair<std::size_t, Seat>> turns;
  for (const auto& seat : seats) turns.emplace_back(turn[seat.host]++, seat);
  std::stable_sort(turns.begin(), turns.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (std::size_t i = 0; i < seats.size(); ++i) seats[i] = turns[i].second;
}

Status check_caps(const std::vector<std::vector<Seat>>& seats, std::span<const Host> hosts) {
  std::vector<int> count(hosts.size(), 0);
  for (const auto& app : seats)
    for (const auto& seat : app) ++count[seat.host];
  for (std::size_t host = 0; host < hosts.size(); ++host)
    if (hosts[host].max_slots > 0 && count[host] > hosts[host].max_slots)
      return fail(Code::kInvalid, fmt::format("{} placed on {}, but max_slots={} ({})",
                                              counted(count[host], "rank"), hosts[host].name,
                                              hosts[host].max_slots, hosts[host].slots_source));
  return {};
}

Result<std::vector<std::vector<Seat>>> seat_in_sequence(const std::vector<int>& app_sizes,
                                                        std::span<const Host> hosts,
                                                        const NamedHosts& named) {
  std::vector<std::vector<Seat>> seats(app_sizes.size());
  std::size_t next = 0;  // among the mentions for all
  for (std::size_t app = 0; app < app_sizes.size(); ++app) {
    const bool own = app < named.of_app.size() && !named.of_app[app].empty();
    const auto& mentions = own ? named.of_app[app] : named.mentions;
    std::size_t own_next = 0;
    std::size_t& at = own ? own_next : next;
    for (int i = 0; i < app_sizes[app]; ++i) {
      if (at >= mentions.size())
        return fail(Code::kInvalid, fmt::format("--map-by seq: {} wanted, but only {} listed",
                                                counted(app_sizes[app], "rank"),
                                                counted(mentions.size(), "place")));
      seats[app].push_back({mentions[at++], 0});
    }
  }
  RLX_TRY(check_caps(seats, hosts));
  return seats;
}

Result<std::vector<std::vector<Seat>>> seat_by_rank_file(const std::vector<int>& app_sizes,
                                                         const MapOptions& options,
                                                         std::span<const Host> hosts) {
  std::vector<std::vector<Seat>> seats(app_sizes.size());
  std::size_t rank = 0;
  for (std::size_t app = 0; app < app_sizes.size(); ++app)
    for (int i = 0; i < app_sizes[app]; ++i, ++rank) {
      if (rank >= options.rank_lines.size())
        return fail(Code::kInvalid, fmt::format("rank {} has no line in the rank file, which ends "
                                                "with rank {} ({})",
                                                rank, rank - 1, options.rank_lines.back().source));
      const RankLine& line = options.rank_lines[rank];
      const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const Host& h) {
        return is_same_name(h.name, line.host);
      });
      if (host == hosts.end())
        return fail(Code::kInvalid,
                    fmt::format("{}: host '{}' is not one of the job's", line.source, line.host));
      seats[app].push_back({static_cast<std::uint32_t>(host - hosts.begin()), 0});
    }
  RLX_TRY(check_caps(seats, hosts));
  return seats;
}

tl::unexpected<Error> no_room(int wanted, const MapOptions& options, std::span<const Host> hosts) {
  std::int64_t room = 0;
  for (const auto& host : hosts) room += room_on(host, options);
  if (options.by == MapBy::kPerObject && room < wanted)
    return fail(Code::kInvalid,
                fmt::format("{} wanted, but --map-by ppr:{}:{} has room for {} on {}",
                            counted(wanted, "rank"), options.per_object,
                            options.object_is_gpu ? "gpu" : name_of(options.object), room,
                            hosts.size() == 1 ? hosts[0].name : counted(hosts.size(), "host")));
  if (options.per_node == PerNode::kNumber && room < wanted)
    return fail(Code::kInvalid,
                fmt::format("{} wanted, but with {} on each of {} there is room for {}",
                            counted(wanted, "rank"), options.ranks_per_node,
                            counted(hosts.size(), "host"), room));
  return fail(Code::kInvalid, slot_table(wanted, hosts, options));
}

}  // namespace

CpuSet usable_cpus(const Host& host, const MapOptions& options) {
  const CpuSet& allowed = host.topology.allowed();
  return options.only.empty() ? allowed : allowed & options.only;
}

std::vector<CpuSet> parts_of(const Topology& topology, Locality locality, const CpuSet& within) {
  std::vector<CpuSet> parts;
  for (const auto& domain : topology.domains(locality))
    if (CpuSet part = domain & within; !part.empty()) parts.push_back(std::move(part));
  return parts;
}

std::vector<CpuSet> objects_of(const Host& host, const MapOptions& options) {
  const CpuSet all = usable_cpus(host, options);
  if (!has_objects(options) || all.empty()) return {all};
  if (!options.object_is_gpu) return parts_of(host.topology, options.object, all);
  const auto per_rank = static_cast<std::size_t>(std::max(1, options.gpus_per_rank));
  std::vector<CpuSet> objects;
  for (std::size_t first = 0; first + per_rank <= host.gpus.gpus.size(); first += per_rank) {
    CpuSet near;
    for (std::size_t i = first; i < first + per_rank; ++i) near = near | host.gpus.gpus[i].near;
    near = near & all;
    objects.push_back(near.empty() ? all : near);
  }
  if (objects.empty()) objects.push_back(all);
  return objects;
}

int room_on(const Host& host, const MapOptions& options) {
  const auto objects = [&] { return static_cast<int>(objects_of(host, options).size()); };
  const auto groups = static_cast<int>(host.gpus.gpus.size()) / std::max(1, options.gpus_per_rank);
  if (options.per_node == PerNode::kNumber) return options.ranks_per_node;
  if (options.by == MapBy::kPerObject) return options.per_object * objects();
  if (options.per_node == PerNode::kCores) return host.topology.slots();
  int room = host.slots;
  if (options.cores_per_rank > 0) {
    const auto units = parts_of(host.topology, unit_of(options), usable_cpus(host, options)).size();
    room = std::max(1, std::min(room, static_cast<int>(units) / options.cores_per_rank));
  }
  const bool by_gpu = options.gpus_per_rank > 0 || options.per_node == PerNode::kGpus ||
                      (options.by == MapBy::kObject && options.object_is_gpu);
  return by_gpu && groups > 0 ? std::min(room, groups) : room;
}

Result<std::vector<std::vector<Seat>>> choose_seats(const std::vector<int>& app_sizes,
                                                    const MapOptions& options,
                                                    std::span<const Host> hosts,
                                                    const NamedHosts& named) {
  if (options.by == MapBy::kSequence) return seat_in_sequence(app_sizes, hosts, named);
  if (options.by == MapBy::kRankFile) return seat_by_rank_file(app_sizes, options, hosts);
  Seating seating(options, hosts);
  std::vector<std::vector<Seat>> seats(app_sizes.size());
  for (std::size_t app = 0; app < app_sizes.size(); ++app) {
    const auto order = hosts_of_app(app, hosts.size(), named);
    if (!seating.seat(app_sizes[app], order, seats[app]))
      return no_room(std::accumulate(app_sizes.begin(), app_sizes.end(), 0), options, hosts);
    number(seats[app], order, options);
  }
  return seats;
}

}  // namespace rlx::launcher
