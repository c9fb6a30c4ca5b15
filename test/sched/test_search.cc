// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include <algorithm>
#include <limits>

#include "sched/bound.h"
#include "test/sched/support.h"

using namespace rlx;
using namespace rlx::sched;
using namespace rlx::sched::test;

namespace {

Plan plan_for(const Loads& loads, const Cluster& cluster, PlanOptions options = {}) {
  auto plan = make_plan(loads, cluster, options);
  cr_assert(plan.has_value(), "%s", plan.error().text.c_str());
  const std::string what = broken(*plan, loads, cluster, options);
  cr_expect(what.empty(), "%s", what.c_str());
  return std::move(*plan);
}

int copies_of(const Plan& plan, int e) {
  return static_cast<int>(
      std::count(plan.placement.expert.begin(), plan.placement.expert.end(), e));
}

}  // namespace

Test(search, finds_the_known_optimum_of_small_cases) {
  const std::vector<double> w0 = {90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
  const std::vector<double> w1 = {20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
  const struct {
    std::vector<double> load;
    int ranks, slots;
    double peak;
  } table[] = {
      {{3, 3, 2, 2, 2, 0}, 2, 6, 6},
      {{9, 8, 7, 6, 5, 4, 3, 2, 1}, 3, 9, 15},
      {std::vector<double>(8, 10), 4, 16, 20},
      {{100, 1, 1, 1}, 4, 8, 26},
      {{0, 0, 0, 0}, 4, 8, 0},
      {{7}, 4, 4, 1.75},
      {{9, 1, 5, 3}, 4, 4, 9},
      {{10, 10, 1, 1, 5, 5, 4, 4}, 4, 8, 11},
      {w0, 8, 16, 136},
      {w1, 8, 16, 172},
      {{0x1p62, 0x1p62, 0x1p62, 0x1p62}, 2, 4, 0x1p63},
      {{0x1p24 + 1, 0x1p24, 1, 1}, 2, 4, 0x1p24 + 2},
      {{5, 4, 3}, 2, 3, 7},        // slots that do not divide: one rank has two
      {{5, 4, 3, 2, 1}, 3, 5, 5},  // 5 | 4 1 | 3 2, or better by none
      {{6, 6}, 3, 2, 6},           // a rank without a slot
  };
  for (const auto& row : table) {
    const Loads loads = one_layer(row.load);
    const Plan plan = plan_for(loads, *make_cluster(row.ranks, row.slots));
    cr_expect_float_eq(plan.layers[0].peak, row.peak, 1e-9 * row.peak, "slots=%d: %g", row.slots,
                       plan.layers[0].peak);
    cr_expect(plan.layers[0].optimal, "slots=%d", row.slots);
  }
}

Test(search, splits_a_giant_over_every_rank_and_to_the_mean) {
  const Plan plan = plan_for(one_layer({100, 1, 1, 1}), *make_cluster(4, 8));
  cr_expect_eq(copies_of(plan, 0), 4);
  cr_expect_float_eq(plan.layers[0].split_peak, 25.75, 1e-9);
  const Plan huge = plan_for(one_layer({0x1p63, 0, 0, 0}), *make_cluster(4, 8));
  cr_expect_eq(copies_of(huge, 0), 4);
  cr_expect(huge.layers[0].peak >= 2.3058e18 && huge.layers[0].peak <= 2.3059e18);
}

Test(search, leaves_slots_empty_only_where_every_rank_has_every_expert) {
  const Plan plan = plan_for(one_layer({8}), *make_cluster(2, 4));
  cr_expect_eq(copies_of(plan, 0), 2);
  cr_expect_eq(copies_of(plan, kEmpty), 2);
  // 6 | 5 1 needs an empty slot; by default all slots are filled.
  PlanOptions options;
  const Cluster c = *make_cluster(2, 4);
  cr_expect_eq(copies_of(plan_for(one_layer({6, 5, 1}), c), kEmpty), 0);
  options.allow_empty = true;
  cr_expect_float_eq(plan_for(one_layer({6, 5, 1}), c, options).layers[0].peak, 6, 1e-12);
}

Test(search, spreads_replicas_evenly_without_load_and_calls_it_balanced) {
  const Plan plan = plan_for(one_layer({0, 0, 0, 0}), *make_cluster(4, 8));
  for (int e = 0; e < 4; ++e) cr_expect_eq(copies_of(plan, e), 2);
  cr_expect_eq(plan.balance(), 1);
}

Test(search, moves_nothing_where_nothing_helps) {
  const struct {
    std::vector<double> load;
    int ranks, slots;
    std::vector<int32_t> old;
  } table[] = {{{9, 1, 5, 3}, 4, 4, {2, 0, 3, 1}},
               {{0, 0, 0, 0}, 4, 8, {0, 1, 0, 2, 0, 3, 1, 2}},
               {{1, 1, 10, 10}, 2, 4, {3, 1, 2, 0}},
               {{10, 10}, 2, 2, {1, 0}}};
  for (const auto& row : table) {
    const Placement old{1, row.slots, row.old};
    PlanOptions options;
    options.from = &old;
    const Plan plan = plan_for(one_layer(row.load), *make_cluster(row.ranks, row.slots), options);
    cr_expect(plan.placement == old, "slots=%d", row.slots);
    cr_expect_eq(plan.fetches(), 0);
  }
}

Test(search, exchanges_one_pair_where_that_is_enough) {
  const Placement old{1, 4, {0, 1, 2, 3}};
  PlanOptions options;
  options.from = &old;
  const Plan plan = plan_for(one_layer({10, 10, 1, 1}), *make_cluster(2, 4), options);
  cr_expect_eq(plan.fetches(), 2);
  cr_expect_eq(plan.layers[0].before, 20);
  cr_expect_eq(plan.layers[0].peak, 11);
  options.max_fetches = 1;  // an exchange needs two
  cr_expect_eq(plan_for(one_layer({10, 10, 1, 1}), *make_cluster(2, 4), options).fetches(), 0);
}

Test(search, renames_ranks_when_a_rule_replans) {
  const Placement old{1, 4, {3, 1, 2, 0}};
  PlanOptions options;
  options.policy = Policy::deepseek;
  options.from = &old;
  const Plan plan = plan_for(one_layer({1, 1, 10, 10}), *make_cluster(2, 4), options);
  cr_expect_eq(plan.fetches(), 0);
  cr_expect(plan.placement == old);
}

Test(search, serves_every_window_not_their_sum) {
  const Loads loads = windows_of({{8, 0, 4, 4}, {0, 8, 4, 4}});
  const Plan plan = plan_for(loads, *make_cluster(2, 4));
  cr_expect_eq(plan.layers[0].peak, 16);  // 8 in each; pairing 0 with 2 or 3 makes 12 in each
  // The same beyond the reach of the exact search: eight such pairs.
  std::vector<std::vector<double>> big(2);
  for (int i = 0; i < 8; ++i)
    for (int t = 0; t < 2; ++t) {
      big[t].push_back(t ? 0 : 8);
      big[t].push_back(t ? 8 : 0);
      big[t].push_back(4);
      big[t].push_back(4);
    }
  cr_expect_eq(plan_for(windows_of(big), *make_cluster(8, 32)).layers[0].peak, 32);
}

Test(search, balances_time_when_experts_cost_and_ranks_differ) {
  // A fixed cost of 10 makes two light experts as slow as one heavy one.
  PlanOptions options;
  options.time.fixed_cost = 10;
  const Loads loads = one_layer({30, 2, 2, 6});
  const Plan plan = plan_for(loads, *make_cluster(2, 4), options);
  cr_expect_eq(plan.layers[0].peak, 52);
  // Three experts on a rank that is three times as fast.
  Cluster c = *make_cluster(2, 6);
  c.speed = {3, 1};
  const Plan fast = plan_for(one_layer({4, 4, 4, 4, 4, 4}), c);
  cr_expect_eq(fast.layers[0].peak, 12);  // a slot is a slot: three each
  const Plan skewed = plan_for(one_layer({9, 9, 9, 3, 3, 3}), c);
  cr_expect_eq(skewed.layers[0].peak, 9);
}

Test(search, keeps_dead_ranks_empty_and_says_when_too_few_live) {
  const Loads loads = one_layer({4, 3, 2, 1});
  const Cluster c = *make_cluster(4, 8);
  const std::vector<uint8_t> dead = {0, 1, 0, 0};
  PlanOptions options;
  options.dead = dead;
  for (Policy policy : {Policy::search, Policy::deepseek, Policy::nodes}) {
    options.policy = policy;
    const Plan plan = plan_for(loads, c, options);
    cr_expect_eq(copies_of(plan, kEmpty), 2);
  }
  const std::vector<uint8_t> most = {1, 1, 1, 0}, all = {1, 1, 1, 1};
  options.policy = Policy::search;
  options.dead = most;
  const auto refused = make_plan(loads, c, options);
  cr_assert(!refused.has_value());
  cr_expect(refused.error().text.find("2 slots of 1 live") != std::string::npos);
  options.dead = all;
  cr_expect(!make_plan(loads, c, options));
  // The copies that died are replaced, the others stay.
  const Placement old{1, 8, {0, 1, 2, 3, 0, 1, 2, 3}};
  const std::vector<uint8_t> first = {1, 0, 0, 0};
  options.dead = first;
  options.from = &old;
  options.max_fetches = 0;
  const Plan kept = plan_for(loads, c, options);
  cr_expect_eq(kept.fetches(), 0);
}

Test(loads, that_are_no_numbers_or_too_large_are_refused_with_their_place) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (double bad : {nan, inf, -inf, -1.0, 0x1.1p63}) {
    for (Policy policy : {Policy::search, Policy::deepseek, Policy::rlx, Policy::nodes}) {
      Loads loads{1, 2, 4, {1, 1, 1, 1, 1, 1, bad, 1}};
      PlanOptions options;
      options.policy = policy;
      const auto plan = make_plan(loads, *make_cluster(2, 4), options);
      cr_assert(!plan.has_value(), "%g", bad);
      cr_expect(plan.error().text.find("expert 2 in layer 1") != std::string::npos, "%s",
                plan.error().text.c_str());
      cr_expect_eq(static_cast<int>(plan.error().code), static_cast<int>(Code::kInvalid));
    }
  }
  const Placement wrong[] = {{1, 4, {0, 1, 2, 4}}, {1, 4, {0, 1, 2, -2}}, {1, 3, {0, 1, 2}}};
  for (const Placement& old : wrong) {
    PlanOptions options;
    options.from = &old;
    cr_expect(!make_plan(one_layer({1, 1, 1, 1}), *make_cluster(2, 4), options));
  }
}

Test(plans, keep_their_invariants_for_random_loads_shapes_and_old_placements) {
  Random random(7);
  for (int i = 0; i < 300; ++i) {
    const int ranks = 1 + random.below(9), experts = 1 + random.below(20);
    const int nodes = 1 + random.below(ranks);
    const int slots = experts + random.below(3 * ranks);
    Cluster c = *make_cluster(ranks, slots, nodes, 1 + random.below(nodes));
    if (random.below(3) == 0)
      for (double& s : c.speed) s = 1 + random.below(3);
    const Loads loads = random_loads(random, 1 + random.below(3), 1 + random.below(3), experts);
    PlanOptions options;
    options.policy = random.below(4) == 0 ? Policy::nodes : Policy::search;
    options.routing.k = 1 + random.below(experts);
    options.routing.tokens = 64;
    options.allow_empty = random.below(4) == 0;
    options.time.fixed_cost = random.below(3) == 0 ? 20 : 0;
    const Placement old = random_placement(random, loads, c);
    if (random.below(2)) options.from = &old;
    if (options.from && random.below(2)) options.max_fetches = random.below(slots);
    const auto plan = make_plan(loads, c, options);
    cr_assert(plan.has_value(), "case %d: %s", i, plan.error().text.c_str());
    const std::string what = broken(*plan, loads, c, options);
    cr_expect(what.empty(), "case %d: %s", i, what.c_str());
    if (!options.from) continue;
    if (options.max_fetches >= 0) cr_expect_leq(plan->fetches(), options.max_fetches, "case %d", i);
    cr_expect_leq(plan->layers[0].peak, plan->layers[0].before * (1 + 1e-9), "case %d", i);
  }
}

Test(plans, need_no_old_placement_to_be_legal) {
  // Duplicates, empty slots and missing experts are repaired, even without a budget.
  const Loads loads = one_layer({4, 3, 2, 1, 1});
  const Cluster c = *make_cluster(2, 6);
  const std::vector<std::vector<int32_t>> olds = {
      {0, 0, 0, 0, 0, 0}, {-1, -1, -1, -1, -1, -1}, {0, 0, 1, 2, 3, 4}, {4, 3, 2, 4, 3, 2}};
  for (const auto& row : olds) {
    const Placement old{1, 6, row};
    PlanOptions options;
    options.from = &old;
    options.max_fetches = 0;
    plan_for(loads, c, options);
  }
}

Test(plans, put_no_expert_twice_on_a_rank_and_fill_every_slot_that_can_be) {
  Random random(11);
  for (int i = 0; i < 1500; ++i) {
    const int ranks = 1 + random.below(10), experts = 1 + random.below(24);
    const int slots = experts + random.below(std::max(1, ranks * experts + 3 - experts));
    Cluster whole = *make_cluster(ranks, slots, 1 + random.below(ranks));
    for (double& s : whole.speed) s = random.below(4) ? 1 : 0.7;
    std::vector<uint8_t> dead(ranks);
    for (uint8_t& gone : dead) gone = random.below(8) == 0;
    std::vector<int> live_slots;
    const auto live = without_dead(whole, dead, live_slots);
    if (!live || live->slots() < experts) continue;
    std::vector<double> load(experts);
    const int kind = random.below(4);  // equal, one alone, most without load, all different
    for (int e = 0; e < experts; ++e)
      load[e] = kind == 0 ? 7 : kind == 1 ? e == experts - 1 : random.below(kind == 2 ? 2 : 1000);
    const std::span<const double> window = load;
    PlanOptions options;
    options.dead = dead;
    options.routing.tokens = 16;
    options.routing.k = 1;
    for (Policy policy : {Policy::search, Policy::nodes}) {
      const bool whole_plan = i % 6 == 0;  // else the start of the search alone: it is quick
      if (!whole_plan && policy == Policy::nodes) continue;
      options.policy = policy;
      const Cluster& cluster = whole_plan ? whole : *live;
      const std::vector<int32_t> row =
          whole_plan ? make_plan(one_layer(load), cluster, options)->placement.expert
                     : first_placement({{&window, 1}, cluster, {}});
      cr_assert_eq(count_duplicates(row, cluster), 0, "case %d, policy %d", i, int(policy));
      const int room = std::min(live->slots(), experts * live->ranks());
      cr_assert_eq(std::count(row.begin(), row.end(), kEmpty), cluster.slots() - room,
                   "case %d, policy %d", i, int(policy));
    }
  }
}
