// SPDX-License-Identifier: MIT OR Apache-2.0
// A bipartite flow, experts to ranks, kept as tokens by slot. Starting from the even split and a
// target T below the optimum, tokens flow along shortest paths of shared experts from ranks above T
// to ranks below. Where no path is left, the ranks that can be reached hold tokens that no one else
// can take: their average is a lower bound, and the next T. The last T is feasible and a bound:
// optimal. Source: discrete Newton on the minimum cut.   Tested by test/sched/test_split.cc
#include "sched/split.h"

#include <algorithm>
#include <cmath>

namespace rlx::sched {
namespace {

class Flow {
 public:
  Flow(std::span<const double> load, std::span<const int32_t> placement, const Cluster& cluster,
       const TimeModel& model)
      : cluster_(cluster),
        placement_(placement),
        tokens_(placement.size()),
        slots_of_(load.size()),
        work_(cluster.ranks()) {
    for (int s = 0; s < cluster.slots(); ++s)
      if (placement[s] != kEmpty) slots_of_[placement[s]].push_back(s);
    for (int s = 0; s < cluster.slots(); ++s) {
      if (placement[s] == kEmpty || load[placement[s]] <= 0) continue;
      tokens_[s] = load[placement[s]] / static_cast<double>(slots_of_[placement[s]].size());
      work_[cluster.rank_of[s]] += tokens_[s] + model.fixed_cost;
    }
  }

  Split solve() {
    double work = 0, speed = 0;
    for (int r = 0; r < cluster_.ranks(); ++r) {
      work += work_[r];
      speed += cluster_.speed[r];
    }
    target_ = work / speed;
    while (!settle()) {
    }
    Split split{tokens_, 0};
    for (int r = 0; r < cluster_.ranks(); ++r)
      split.peak = std::max(split.peak, work_[r] / cluster_.speed[r]);
    return split;
  }

 private:
  double above(int r) const { return work_[r] - target_ * cluster_.speed[r]; }
  double tolerance() const { return target_ * 1e-12; }

  // Flows until every rank is at the target (true) or the target was too low and is raised (false).
  bool settle() {
    for (;;) {
      from_.assign(cluster_.ranks(), kUnseen);
      queue_.clear();
      for (int r = 0; r < cluster_.ranks(); ++r)
        if (above(r) > tolerance() * cluster_.speed[r]) {
          from_[r] = kStart;
          queue_.push_back(r);
        }
      if (queue_.empty()) return true;
      const int end = find_room();
      if (end >= 0) {
        push(end);
        continue;
      }
      double work = 0, speed = 0;
      for (int r : queue_) {
        work += work_[r];
        speed += cluster_.speed[r];
      }
      const double raised = work / speed;
      if (raised <= target_ * (1 + 1e-12)) return true;  // no more than rounding
      target_ = raised;
      return false;
    }
  }

  // Breadth first over ranks that share an expert; from_[rank] is the slot whose tokens move there.
  int find_room() {
    asked_.assign(slots_of_.size(), 0);
    for (size_t i = 0; i < queue_.size(); ++i) {
      const int r = queue_[i];
      for (int s = cluster_.first_slot[r]; s < cluster_.first_slot[r + 1]; ++s) {
        if (placement_[s] == kEmpty || tokens_[s] <= 0 || asked_[placement_[s]]) continue;
        asked_[placement_[s]] = 1;  // all its ranks are seen now
        for (int q : slots_of_[placement_[s]]) {
          const int p = cluster_.rank_of[q];
          if (from_[p] != kUnseen) continue;
          from_[p] = s;
          if (above(p) < -tolerance() * cluster_.speed[p]) return p;
          queue_.push_back(p);
        }
      }
    }
    return -1;
  }

  void push(int end) {
    double amount = -above(end);
    int r = end;
    for (; from_[r] != kStart; r = cluster_.rank_of[from_[r]])
      amount = std::min(amount, tokens_[from_[r]]);
    amount = std::min(amount, above(r));
    for (r = end; from_[r] != kStart; r = cluster_.rank_of[from_[r]]) {
      const int s = from_[r];
      tokens_[s] -= amount;
      for (int q : slots_of_[placement_[s]])
        if (cluster_.rank_of[q] == r) {
          tokens_[q] += amount;
          break;
        }
      work_[r] += amount;
      work_[cluster_.rank_of[s]] -= amount;
    }
  }

  static constexpr int kUnseen = -2, kStart = -1;

  const Cluster& cluster_;
  std::span<const int32_t> placement_;
  std::vector<double> tokens_;
  std::vector<std::vector<int>> slots_of_;
  std::vector<double> work_;  // by rank: tokens and fixed costs
  std::vector<int> from_, queue_;
  std::vector<uint8_t> asked_;  // by expert
  double target_ = 0;
};

}  // namespace

Split split_tokens(std::span<const double> load, std::span<const int32_t> placement,
                   const Cluster& cluster, const TimeModel& model) {
  return Flow(load, placement, cluster, model).solve();
}

std::vector<int64_t> split_counts(std::span<const int64_t> counts,
                                  std::span<const int32_t> placement, const Cluster& cluster,
                                  const TimeModel& model) {
  const std::vector<double> load(counts.begin(), counts.end());
  const Split split = split_tokens(load, placement, cluster, model);
  std::vector<int64_t> tokens(placement.size()), left(counts.begin(), counts.end());
  std::vector<int> last(counts.size(), -1);
  // Cumulative rounding: every slot is within one token of its share, the last one takes the rest.
  std::vector<double> carry(counts.size());
  for (int s = 0; s < cluster.slots(); ++s) {
    const int32_t e = placement[s];
    if (e == kEmpty || counts[e] <= 0) continue;
    const double want = split.tokens[s] + carry[e];
    const double whole = std::clamp(std::round(want), 0.0, static_cast<double>(left[e]));
    tokens[s] = whole >= 0x1p63 ? left[e] : std::min(left[e], static_cast<int64_t>(whole));
    carry[e] = want - whole;
    left[e] -= tokens[s];
    last[e] = s;
  }
  for (size_t e = 0; e < counts.size(); ++e)
    if (last[e] >= 0) tokens[last[e]] += left[e];
  return tokens;
}

}  // namespace rlx::sched
