// SPDX-License-Identifier: MIT OR Apache-2.0
// The words of the expert scheduler: loads, the cluster, a placement. Everything in sched/ is a
// pure function over these: no clock, no network, no global state, the same result on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace rlx::sched {

inline constexpr int32_t kEmpty = -1;  // a slot that holds no expert

// Tokens per expert: values[(window * layers + layer) * experts + expert], finite, 0 .. 2^63.
// Several windows are several samples of the load that one placement has to serve.
struct Loads {
  int windows = 1, layers = 0, experts = 0;
  std::vector<double> values;

  std::span<const double> row(int window, int layer) const {
    return {&values[(static_cast<size_t>(window) * layers + layer) * experts],
            static_cast<size_t>(experts)};
  }
};

// Who has how many slots and where. Slot s of rank r: first_slot[r] <= s < first_slot[r + 1].
struct Cluster {
  std::vector<int> first_slot;  // ranks + 1
  std::vector<int> rank_of;     // by slot
  std::vector<int> node_of;     // by rank
  std::vector<int> rack_of;     // by node
  std::vector<double> speed;    // by rank, relative to the others

  int ranks() const { return static_cast<int>(node_of.size()); }
  int slots() const { return static_cast<int>(rank_of.size()); }
  int nodes() const { return static_cast<int>(rack_of.size()); }
  int slots_of(int rank) const { return first_slot[rank + 1] - first_slot[rank]; }
  bool uniform() const;  // every rank has the same number of slots and the same speed
};

// Blocks: the first `slots % ranks` ranks hold one slot more, ranks and nodes are dealt in order.
Result<Cluster> make_cluster(int ranks, int slots, int nodes = 1, int racks = 1);
// The ranks that live; slot i of the result is slot live_slots[i] of `whole`.
Result<Cluster> without_dead(const Cluster& whole, std::span<const uint8_t> dead,
                             std::vector<int>& live_slots);

// Which expert every slot holds: expert[layer * slots + slot], or kEmpty.
struct Placement {
  int layers = 0, slots = 0;
  std::vector<int32_t> expert;

  std::span<const int32_t> row(int layer) const {
    return {&expert[static_cast<size_t>(layer) * slots], static_cast<size_t>(slots)};
  }
  std::span<int32_t> row(int layer) {
    return {&expert[static_cast<size_t>(layer) * slots], static_cast<size_t>(slots)};
  }
  bool operator==(const Placement&) const = default;
};

// Refuses NaN, infinite, negative and overflowing loads, naming the first. Every rank that sees the
// same loads says the same words, so all ranks keep the old placement together.
Status check_loads(const Loads& loads);
// Refuses ids out of range and, with `complete`, experts that no slot holds.
Status check_placement(const Placement& placement, const Loads& loads, const Cluster& cluster,
                       bool complete = true);

// What a rank's time is made of: time = sum over its active experts (fixed_cost + tokens) / speed.
// fixed_cost is what touching an expert costs before its first token, in tokens.
struct TimeModel {
  double fixed_cost = 0;
};

// Time of every rank when each expert's tokens are split evenly over its replicas.
std::vector<double> rank_times(std::span<const double> load, std::span<const int32_t> placement,
                               const Cluster& cluster, const TimeModel& model = {});

struct Balance {
  double mean = 0, peak = 0;
  // 1 is perfect; a layer without load is perfectly balanced.
  double ratio() const { return peak > 0 ? mean / peak : 1; }
};
Balance balance_of(std::span<const double> times);

int count_duplicates(std::span<const int32_t> placement, const Cluster& cluster);
// Slots whose expert their rank did not hold before: what has to cross the wire.
int count_fetches(std::span<const int32_t> before, std::span<const int32_t> after,
                  const Cluster& cluster);
// 64 bits of a placement: ranks compare it before they commit.
uint64_t fingerprint(std::span<const int32_t> ids);

}  // namespace rlx::sched
