// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include <algorithm>
#include <numeric>

#include "sched/split.h"
#include "test/sched/support.h"

using namespace rlx::sched;
using namespace rlx::sched::test;

namespace {

// By minimum cuts: tokens that only the ranks of a set can take bound the time of its slowest.
double best_peak(const std::vector<double>& load, std::span<const int32_t> row, const Cluster& c,
                 double fixed) {
  std::vector<int> holders(load.size());
  for (int s = 0; s < c.slots(); ++s)
    if (row[s] != kEmpty) holders[row[s]] |= 1 << c.rank_of[s];
  double best = 0;
  for (int set = 1; set < 1 << c.ranks(); ++set) {
    double work = 0, speed = 0;
    for (size_t e = 0; e < load.size(); ++e)
      if (holders[e] && (holders[e] & ~set) == 0) work += load[e];
    for (int s = 0; s < c.slots(); ++s)
      if (row[s] != kEmpty && load[row[s]] > 0 && set >> c.rank_of[s] & 1) work += fixed;
    for (int r = 0; r < c.ranks(); ++r)
      if (set >> r & 1) speed += c.speed[r];
    best = std::max(best, work / speed);
  }
  return best;
}

}  // namespace

Test(split, of_known_cases_is_the_linear_programs) {
  const std::vector<int32_t> row = {0, 1, 0, 2};
  const Split split = split_tokens(std::vector<double>{10, 6, 0}, row, *make_cluster(2, 4));
  cr_expect(split.tokens == std::vector<double>({2, 6, 8, 0}));
  cr_expect_eq(split.peak, 8);
  const std::vector<int32_t> giant = {0, 1, 0, 2, 0, 3, 0, kEmpty};
  cr_expect_float_eq(
      split_tokens(std::vector<double>{100, 1, 1, 1}, giant, *make_cluster(4, 8)).peak, 25.75,
      1e-12);
}

Test(split, is_as_good_as_the_tightest_cut_allows) {
  Random random(3);
  for (int i = 0; i < 400; ++i) {
    const int ranks = 1 + random.below(7), experts = 1 + random.below(12);
    Cluster c = *make_cluster(ranks, experts + random.below(3 * ranks));
    if (i % 3 == 0)
      for (double& s : c.speed) s = 1 + random.below(3);
    const Loads loads = random_loads(random, 1, 1, experts);
    const TimeModel model{i % 4 == 0 ? 25.0 : 0.0};
    const Placement p = random_placement(random, loads, c);
    const Split split = split_tokens(loads.values, p.row(0), c, model);
    const double best = best_peak(loads.values, p.row(0), c, model.fixed_cost);
    cr_expect_float_eq(split.peak, best, 1e-9 * best, "case %d: %g, best %g", i, split.peak, best);
    std::vector<double> sum(experts);
    for (int s = 0; s < c.slots(); ++s) {
      cr_expect_geq(split.tokens[s], 0, "case %d", i);
      if (p.expert[s] != kEmpty) sum[p.expert[s]] += split.tokens[s];
    }
    for (int e = 0; e < experts; ++e)
      cr_expect_float_eq(sum[e], loads.values[e], 1e-9 * (1 + sum[e]), "case %d expert %d", i, e);
  }
}

Test(split, in_whole_tokens_loses_none) {
  Random random(4);
  for (int i = 0; i < 200; ++i) {
    const int ranks = 1 + random.below(7), experts = 1 + random.below(12);
    const Cluster c = *make_cluster(ranks, experts + random.below(3 * ranks));
    std::vector<int64_t> counts(experts);
    for (int64_t& n : counts)
      n = i % 5 == 0 ? INT64_MAX - random.below(9) : static_cast<int64_t>(random.bits() % 97);
    Loads loads = one_layer(std::vector<double>(counts.begin(), counts.end()));
    const Placement p = random_placement(random, loads, c);
    const std::vector<int64_t> tokens = split_counts(counts, p.row(0), c);
    std::vector<int64_t> sum(experts);
    std::vector<double> work(ranks);
    for (int s = 0; s < c.slots(); ++s) {
      cr_expect_geq(tokens[s], 0, "case %d", i);
      if (p.expert[s] != kEmpty) sum[p.expert[s]] += tokens[s];
      work[c.rank_of[s]] += static_cast<double>(tokens[s]);
    }
    cr_expect(sum == counts, "case %d", i);
    const double peak = split_tokens(loads.values, p.row(0), c).peak;
    const double worst = *std::max_element(work.begin(), work.end());
    cr_expect_leq(worst, (peak + c.slots_of(0) + 1) * (1 + 1e-12), "case %d", i);
  }
}
