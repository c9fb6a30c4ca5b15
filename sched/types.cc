// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sched/types.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/words.h"

namespace rlx::sched {

bool Cluster::uniform() const {
  for (int r = 1; r < ranks(); ++r)
    if (slots_of(r) != slots_of(0) || speed[r] != speed[0]) return false;
  return true;
}

Result<Cluster> make_cluster(int ranks, int slots, int nodes, int racks) {
  if (ranks < 1 || slots < 1 || nodes < 1 || nodes > ranks || racks < 1 || racks > nodes)
    return fail(Code::kInvalid,
                fmt::format("{}, {}, {}, {}: want slots >= 1 and 1 <= racks <= nodes <= ranks",
                            counted(ranks, "rank"), counted(slots, "slot"), counted(nodes, "node"),
                            counted(racks, "rack")));
  Cluster c;
  c.first_slot.push_back(0);
  for (int r = 0; r < ranks; ++r) {
    const int count = slots / ranks + (r < slots % ranks);
    c.first_slot.push_back(c.first_slot.back() + count);
    c.rank_of.insert(c.rank_of.end(), count, r);
    c.node_of.push_back(static_cast<int>(int64_t{r} * nodes / ranks));
  }
  for (int d = 0; d < nodes; ++d) c.rack_of.push_back(static_cast<int>(int64_t{d} * racks / nodes));
  c.speed.assign(ranks, 1.0);
  return c;
}

Result<Cluster> without_dead(const Cluster& whole, std::span<const uint8_t> dead,
                             std::vector<int>& live_slots) {
  Cluster c;
  c.rack_of = whole.rack_of;
  c.first_slot.push_back(0);
  live_slots.clear();
  for (int r = 0; r < whole.ranks(); ++r) {
    if (!dead.empty() && dead[r]) continue;
    const int rank = c.ranks();
    for (int s = whole.first_slot[r]; s < whole.first_slot[r + 1]; ++s) {
      live_slots.push_back(s);
      c.rank_of.push_back(rank);
    }
    c.first_slot.push_back(static_cast<int>(live_slots.size()));
    c.node_of.push_back(whole.node_of[r]);
    c.speed.push_back(whole.speed[r]);
  }
  if (live_slots.empty()) return fail(Code::kInvalid, "no live rank has a slot");
  return c;
}

Status check_loads(const Loads& loads) {
  if (loads.windows < 1 || loads.layers < 1 || loads.experts < 1)
    return fail(
        Code::kInvalid,
        fmt::format("{}, {}, {}: want at least one of each", counted(loads.windows, "window"),
                    counted(loads.layers, "layer"), counted(loads.experts, "expert")));
  const size_t want = size_t(loads.windows) * loads.layers * loads.experts;
  if (loads.values.size() != want)
    return fail(Code::kInvalid,
                fmt::format("{} loads given, want {} windows x {} layers x {} experts = {}",
                            loads.values.size(), loads.windows, loads.layers, loads.experts, want));
  for (size_t i = 0; i < want; ++i) {
    const double v = loads.values[i];
    if (v >= 0 && v <= 0x1p63) continue;
    const size_t row = i / loads.experts;
    return fail(
        Code::kInvalid,
        fmt::format("load of expert {} in layer {}{} is {}: want a number from 0 to 2^63",
                    i % loads.experts, row % loads.layers,
                    loads.windows > 1 ? fmt::format(", window {}", row / loads.layers) : "", v));
  }
  return {};
}

Status check_placement(const Placement& placement, const Loads& loads, const Cluster& cluster,
                       bool complete) {
  if (placement.layers != loads.layers || placement.slots != cluster.slots() ||
      placement.expert.size() != size_t(placement.layers) * placement.slots)
    return fail(Code::kInvalid,
                fmt::format("placement has {} layers of {} slots, want {} of {}", placement.layers,
                            placement.slots, loads.layers, cluster.slots()));
  std::vector<int> seen(loads.experts, -1);
  for (int l = 0; l < placement.layers; ++l) {
    int distinct = 0;
    for (int32_t e : placement.row(l)) {
      if (e == kEmpty) continue;
      if (e < 0 || e >= loads.experts)
        return fail(Code::kInvalid, fmt::format("placement names expert {} in layer {}, want 0 to "
                                                "{}, or {} for an empty slot",
                                                e, l, loads.experts - 1, kEmpty));
      distinct += seen[e] != l;
      seen[e] = l;
    }
    if (!complete || distinct == loads.experts) continue;
    const auto gone = std::find_if(seen.begin(), seen.end(), [&](int s) { return s != l; });
    return fail(Code::kInvalid, fmt::format("placement holds no copy of expert {} in layer {}",
                                            gone - seen.begin(), l));
  }
  return {};
}

std::vector<double> rank_times(std::span<const double> load, std::span<const int32_t> placement,
                               const Cluster& cluster, const TimeModel& model) {
  std::vector<int> copies(load.size());
  for (int32_t e : placement)
    if (e != kEmpty) ++copies[e];
  std::vector<double> time(cluster.ranks());
  for (int s = 0; s < cluster.slots(); ++s) {
    const int32_t e = placement[s];
    if (e != kEmpty && load[e] > 0)
      time[cluster.rank_of[s]] += load[e] / copies[e] + model.fixed_cost;
  }
  for (int r = 0; r < cluster.ranks(); ++r) time[r] /= cluster.speed[r];
  return time;
}

Balance balance_of(std::span<const double> times) {
  Balance b;
  for (double t : times) {
    b.mean += t / static_cast<double>(times.size());
    b.peak = std::max(b.peak, t);
  }
  return b;
}

int count_duplicates(std::span<const int32_t> placement, const Cluster& cluster) {
  int duplicates = 0;
  for (int s = 0; s < cluster.slots(); ++s)
    for (int q = cluster.first_slot[cluster.rank_of[s]]; q < s && placement[s] != kEmpty; ++q)
      if (placement[q] == placement[s]) {
        ++duplicates;
        break;
      }
  return duplicates;
}

int count_fetches(std::span<const int32_t> before, std::span<const int32_t> after,
                  const Cluster& cluster) {
  int fetches = 0;
  for (int r = 0; r < cluster.ranks(); ++r) {
    const int lo = cluster.first_slot[r], hi = cluster.first_slot[r + 1];
    for (int s = lo; s < hi; ++s) {
      const auto held = [&](std::span<const int32_t> row, int end) {
        return std::find(&row[lo], &row[0] + end, after[s]) != &row[0] + end;
      };
      fetches += after[s] != kEmpty && !held(before, hi) && !held(after, s);
    }
  }
  return fetches;
}

uint64_t fingerprint(std::span<const int32_t> ids) {
  uint64_t h = 0xcbf29ce484222325;  // FNV-1a over the ids, little end first
  for (int32_t e : ids)
    for (int byte = 0; byte < 4; ++byte)
      h = (h ^ ((static_cast<uint32_t>(e) >> (8 * byte)) & 0xff)) * 0x100000001b3;
  return h;
}

}  // namespace rlx::sched
