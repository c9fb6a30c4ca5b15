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

// Tokens of one batch and the experts each goes to, -1: to none.
struct Batch {
  int experts = 0, k = 1;
  std::vector<int32_t> chosen;  // [tokens][k]
  std::vector<double> weight;   // [tokens][k], a token's sum to 1
  std::vector<double> value;    // [tokens]
  int tokens() const { return static_cast<int>(value.size()); }
};

enum class Skew { kNone, kOneExpert, kHalfIdle };

Batch random_batch(Random& random, int experts, int k, Skew skew) {
  Batch b{experts, k, {}, {}, {}};
  for (int t = 0; t < 1 + random.below(200); ++t) {
    std::vector<double> weights(k);
    for (double& w : weights) w = 1 + random.below(1000);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (int j = 0; j < k; ++j) {
      const int among = skew == Skew::kOneExpert  ? 1
                        : skew == Skew::kHalfIdle ? (experts + 1) / 2
                                                  : experts;
      b.chosen.push_back(j > 0 && random.below(7) == 0 ? -1 : random.below(among));
      b.weight.push_back(weights[j] / sum);
    }
    b.value.push_back(random.below(2000) - 1000 + 0.25);
  }
  return b;
}

std::vector<int64_t> counts_of(const Batch& b) {
  std::vector<int64_t> counts(b.experts);
  for (int32_t e : b.chosen)
    if (e >= 0) ++counts[e];
  return counts;
}

// Sends each pair of token and expert to a slot that has tokens of the split left, lets the slot's
// expert hand it back unchanged, and adds up what comes back. Returns the tokens that each slot
// got.
std::vector<int64_t> dispatch_and_combine(const Batch& b, std::span<const int32_t> row,
                                          std::vector<int64_t> left, std::vector<double>& out) {
  std::vector<int64_t> got(row.size());
  out.assign(b.value.size(), 0);
  for (size_t i = 0; i < b.chosen.size(); ++i) {
    if (b.chosen[i] < 0) continue;
    size_t s = 0;
    while (s < row.size() && !(row[s] == b.chosen[i] && left[s] > 0)) ++s;
    cr_assert_lt(s, row.size(), "no slot takes token %zu of expert %d", i / b.k, b.chosen[i]);
    --left[s], ++got[s];
    out[i / b.k] += b.weight[i] * b.value[i / b.k];
  }
  return got;
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

Test(split, brings_every_token_of_a_batch_to_its_experts_and_back) {
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const int ranks = 1 + random.below(7), experts = 1 + random.below(12);
    const Cluster c = *make_cluster(ranks, experts + random.below(3 * ranks));
    const int k = 1 + i % 3;  // an expert may be chosen twice by one token
    const Batch batch = random_batch(random, experts, k, static_cast<Skew>(i / 3 % 3));
    const std::vector<int64_t> counts = counts_of(batch);
    const Loads loads = one_layer(std::vector<double>(counts.begin(), counts.end()));
    const Placement p = random_placement(random, loads, c);
    const std::vector<int64_t> split = split_counts(counts, p.row(0), c);
    std::vector<double> out;
    const auto got = dispatch_and_combine(batch, p.row(0), split, out);
    cr_expect(got == split, "case %d: a slot did not get what was decided", i);
    for (int t = 0; t < batch.tokens(); ++t) {
      double kept = 0;  // weight of the experts that are none
      for (int j = 0; j < k; ++j)
        if (batch.chosen[t * k + j] < 0) kept += batch.weight[t * k + j];
      const double want = batch.value[t] * (1 - kept);
      if (k == 1)
        cr_expect(out[t] == batch.value[t], "case %d token %d", i, t);
      else
        cr_expect_float_eq(out[t], want, 1e-15 * k * 2000, "case %d token %d: %g", i, t, out[t]);
    }
  }
}
