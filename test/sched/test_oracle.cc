// SPDX-License-Identifier: MIT OR Apache-2.0
// The planner against brute force: every way to give every rank a set of experts.
#include <criterion/criterion.h>

#include <algorithm>

#include "sched/bound.h"
#include "test/sched/support.h"

using namespace rlx;
using namespace rlx::sched;
using namespace rlx::sched::test;

namespace {

class BruteForce {
 public:
  BruteForce(const Loads& loads, const Cluster& cluster, const TimeModel& model)
      : loads_(loads), cluster_(cluster), model_(model), placement_{1, cluster.slots(), {}} {
    placement_.expert.assign(cluster.slots(), kEmpty);
  }
  double best() {
    fill(0, 0);
    return best_;
  }

 private:
  void fill(int slot, int first) {
    if (slot == cluster_.slots()) {
      if (check_placement(placement_, loads_, cluster_))
        best_ = std::min(best_, peak_of(loads_, placement_, cluster_, model_));
      return;
    }
    for (int e = first; e < loads_.experts; ++e) {
      placement_.expert[slot] = e;
      const bool same =
          slot + 1 < cluster_.slots() && cluster_.rank_of[slot + 1] == cluster_.rank_of[slot];
      fill(slot + 1, same ? e + 1 : 0);
    }
  }

  const Loads& loads_;
  const Cluster& cluster_;
  const TimeModel model_;
  Placement placement_;
  double best_ = 1e300;
};

}  // namespace

Test(oracle, agrees_that_small_plans_are_optimal) {
  const struct {
    int experts, ranks, slots, windows;
  } table[] = {{5, 2, 6, 1}, {6, 3, 6, 1}, {6, 3, 9, 1}, {4, 3, 6, 1}, {5, 4, 8, 1}, {7, 2, 9, 1},
               {5, 3, 7, 1}, {5, 2, 6, 3}, {4, 3, 6, 2}, {6, 3, 8, 2}, {4, 2, 5, 2}, {3, 3, 9, 1}};
  Random random(11);
  for (const auto& row : table)
    for (int i = 0; i < 25; ++i) {
      Cluster c = *make_cluster(row.ranks, row.slots);
      if (i % 5 == 4) c.speed.back() = 2;
      const Loads loads = random_loads(random, row.windows, 1, row.experts);
      PlanOptions options;
      options.time.fixed_cost = i % 5 == 3 ? 30 : 0;
      const double best = BruteForce(loads, c, options.time).best();
      const auto plan = make_plan(loads, c, options);
      cr_assert(plan.has_value());
      const LayerReport& report = plan->layers[0];
      cr_expect_float_eq(report.peak, best, 1e-9 * best, "n=%d G=%d P=%d W=%d case %d: %g, best %g",
                         row.experts, row.ranks, row.slots, row.windows, i, report.peak, best);
      cr_expect(report.optimal);
      cr_expect_leq(report.bound, best * (1 + 1e-12), "n=%d G=%d P=%d case %d", row.experts,
                    row.ranks, row.slots, i);
    }
}

Test(oracle, agrees_that_replica_counts_are_optimal) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const int n = 1 + random.below(4), most = 1 + random.below(4);
    const int slots = n + random.below(n * most - n + 1);
    const Loads loads = random_loads(random, 1, 1, n);
    std::vector<int> c(n, 1);
    double best = 1e300;
    for (;;) {  // counts like digits
      int sum = 0;
      double share = 0;
      for (int e = 0; e < n; ++e) {
        sum += c[e];
        share = std::max(share, loads.values[e] / c[e]);
      }
      if (sum <= slots) best = std::min(best, share);
      int digit = 0;
      while (digit < n && ++c[digit] > most) c[digit++] = 1;
      if (digit == n) break;
    }
    const std::vector<int> copies = optimal_copies(loads.values, slots, most);
    double share = 0;
    int sum = 0;
    for (int e = 0; e < n; ++e) {
      share = std::max(share, loads.values[e] / copies[e]);
      sum += copies[e];
    }
    cr_expect_eq(sum, slots, "case %d", i);
    cr_expect_float_eq(share, best, 1e-12 * best, "case %d", i);
  }
}
