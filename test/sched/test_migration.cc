// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "sched/edge_colour.h"
#include "sched/level_sources.h"
#include "sched/migration.h"
#include "sched/relabel.h"
#include "test/sched/support.h"

using namespace rlx;
using namespace rlx::sched;
using namespace rlx::sched::test;

namespace {

// Plays a plan slab by slab; an empty string, or what is wrong.
std::string wrong(const Migration& plan, const Placement& before, const Placement& after,
                  const Cluster& c, const std::vector<uint8_t>& dead) {
  const auto is_dead = [&](int r) { return !dead.empty() && dead[r]; };
  for (int l = 0; l < before.layers; ++l) {
    std::vector<int32_t> old(before.row(l).begin(), before.row(l).end());
    std::vector<int32_t> landed(c.slots(), kEmpty);
    std::vector<int> round_of(c.slots(), -1);
    std::set<std::pair<int, int>> sends, receives;
    int received = 0;
    for (const Transfer& t : plan.transfers) {
      if (t.layer != l) continue;
      if (c.rank_of[t.to_slot] != t.to || landed[t.to_slot] != kEmpty)
        return "a slot is landed twice";
      landed[t.to_slot] = t.expert;
      round_of[t.to_slot] = t.round;
      if (t.from == kLost) {
        for (int s = 0; s < c.slots(); ++s)
          if (old[s] == t.expert && !is_dead(c.rank_of[s])) return "not lost";
        continue;
      }
      if (c.rank_of[t.from_slot] != t.from || is_dead(t.from) || is_dead(t.to)) return "wrong rank";
      if ((t.forwarded ? landed : old)[t.from_slot] != t.expert) return "the source has no copy";
      if (t.from == t.to) continue;
      ++received;
      if (t.forwarded && round_of[t.from_slot] >= t.round) return "passed on before it came";
      if (t.round < 0 || t.round >= plan.rounds[l]) return "no such round";
      if (!sends.emplace(t.round, t.from).second) return "sends two in a round";
      if (!receives.emplace(t.round, t.to).second) return "receives two in a round";
    }
    for (int s = 0; s < c.slots(); ++s) {
      const int32_t got = landed[s] != kEmpty ? landed[s] : old[s];
      if (!is_dead(c.rank_of[s]) && after.row(l)[s] != kEmpty && got != after.row(l)[s])
        return fmt::format("layer {} slot {} ends with {}, not {}", l, s, got, after.row(l)[s]);
    }
    int want = 0;
    std::vector<int32_t> live = old;
    for (int s = 0; s < c.slots(); ++s)
      if (is_dead(c.rank_of[s])) live[s] = kEmpty;
    want = count_fetches(live, after.row(l), c);
    if (received + static_cast<int>(std::count_if(
                       plan.transfers.begin(), plan.transfers.end(),
                       [&](const Transfer& t) { return t.layer == l && t.from == kLost; })) !=
        want)
      return "sends what is there already";
    if (plan.rounds[l] < plan.least_rounds[l]) return "fewer rounds than possible";
  }
  return "";
}

}  // namespace

Test(edge_colour, uses_as_many_rounds_as_the_busiest_rank_has_edges) {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    const int vertices = 1 + random.below(12);
    std::vector<Edge> edges(random.below(60));
    std::vector<int> degree(2 * vertices);
    for (Edge& e : edges) {
      e = {random.below(vertices), random.below(vertices)};
      ++degree[e.from];
      ++degree[vertices + e.to];
    }
    const std::vector<int> colour = colour_edges(edges, vertices);
    std::set<std::pair<int, int>> used;
    for (size_t e = 0; e < edges.size(); ++e) {
      cr_expect(used.emplace(edges[e].from, colour[e]).second, "case %d", i);
      cr_expect(used.emplace(vertices + edges[e].to, colour[e]).second, "case %d", i);
      cr_expect_lt(colour[e], *std::max_element(degree.begin(), degree.end()), "case %d", i);
    }
  }
}

Test(level_sources, loads_the_busiest_sender_as_little_as_possible_and_near_ones_first) {
  Random random(2);
  for (int i = 0; i < 200; ++i) {
    const Cluster c = *make_cluster(4, 4, 2);
    std::vector<Fetch> fetches(1 + random.below(7));
    for (Fetch& f : fetches) {
      f = {0, random.below(4), {}};
      for (int r = 0; r < 4; ++r)
        if (random.below(2)) f.sources.push_back(r);
      if (f.sources.empty()) f.sources.push_back(random.below(4));
    }
    int best = 99;  // by trying every choice
    std::vector<size_t> at(fetches.size());
    for (;;) {
      std::vector<int> sent(4);
      for (size_t f = 0; f < at.size(); ++f) ++sent[fetches[f].sources[at[f]]];
      best = std::min(best, *std::max_element(sent.begin(), sent.end()));
      size_t digit = 0;
      while (digit < at.size() && ++at[digit] == fetches[digit].sources.size()) at[digit++] = 0;
      if (digit == at.size()) break;
    }
    const std::vector<int> source = level_sources(fetches, c);
    std::vector<int> sent(4);
    for (size_t f = 0; f < source.size(); ++f) {
      ++sent[source[f]];
      const auto& s = fetches[f].sources;
      cr_expect(std::find(s.begin(), s.end(), source[f]) != s.end(), "case %d", i);
    }
    cr_expect_eq(*std::max_element(sent.begin(), sent.end()), best, "case %d", i);
  }
  const Cluster c = *make_cluster(4, 4, 2);
  cr_expect(level_sources({{5, 1, {3, 0}}, {6, 3, {1, 2}}}, c) == std::vector<int>({0, 2}));
}

Test(migration, of_one_expert_to_all_is_a_tree) {
  const Cluster c = *make_cluster(32, 64, 4);
  Placement before{1, 64, {}}, after;
  for (int r = 0; r < 32; ++r) before.expert.insert(before.expert.end(), {1 + r, kEmpty});
  before.expert[1] = 0;
  after = before;
  for (int r = 0; r < 32; ++r) after.expert[2 * r + 1] = 0;
  const auto plan = plan_migration(before, after, 33, c, 1000);
  cr_assert(plan.has_value());
  cr_expect(wrong(*plan, before, after, c, {}).empty());
  cr_expect_eq(plan->rounds[0], 5);
  cr_expect_eq(plan->spare, 1);
  int64_t sent = std::accumulate(plan->sent.begin(), plan->sent.end(), int64_t{0});
  cr_expect_eq(sent, 31000);
  cr_expect_eq(std::accumulate(plan->link.begin(), plan->link.end(), int64_t{0}), sent);
}

Test(migration, of_random_placements_ends_where_the_plan_says_and_never_loses_a_copy) {
  Random random(6);
  for (int i = 0; i < 300; ++i) {
    const int ranks = 1 + random.below(10), experts = 1 + random.below(24);
    const Cluster c =
        *make_cluster(ranks, experts + random.below(2 * ranks), 1 + random.below(ranks));
    const Loads loads = random_loads(random, 1, 1 + random.below(3), experts);
    const Placement before = random_placement(random, loads, c);
    Placement after = random_placement(random, loads, c);
    if (i % 4 == 0)  // duplicates, as other planners make them
      for (int32_t& e : after.expert)
        if (e != kEmpty && random.below(3) == 0) e = random.below(experts);
    std::vector<uint8_t> dead;
    if (i % 3 == 0) {
      dead.assign(ranks, 0);
      dead[random.below(ranks)] = 1;
      for (int l = 0; l < after.layers; ++l)
        for (int s = 0; s < c.slots(); ++s)
          if (dead[c.rank_of[s]]) after.row(l)[s] = kEmpty;
    }
    const auto plan = plan_migration(before, after, experts, c, 100, dead);
    cr_assert(plan.has_value());
    const std::string what = wrong(*plan, before, after, c, dead);
    cr_expect(what.empty(), "case %d: %s", i, what.c_str());
  }
}

Test(migration, needs_no_more_rounds_than_the_busiest_rank_has_slabs) {
  // Two ranks exchange all they have: as many rounds as slots, both ways at once.
  const Cluster c = *make_cluster(2, 6);
  const Placement before{1, 6, {0, 1, 2, 3, 4, 5}}, after{1, 6, {3, 4, 5, 0, 1, 2}};
  const auto plan = plan_migration(before, after, 6, c, 7);
  cr_assert(plan.has_value());
  cr_expect_eq(plan->rounds[0], 3);
  cr_expect_eq(plan->received[1], 21);
  // Slots that only change places within a rank cross no wire.
  const Placement turned{1, 6, {2, 0, 1, 3, 4, 5}};
  const auto local = plan_migration(before, turned, 6, c, 7);
  cr_expect_eq(local->rounds[0], 0);
  cr_expect_eq(local->sent[0], 0);
  cr_expect(wrong(*local, before, turned, c, {}).empty());
  cr_expect(!plan_migration(before, {1, 5, {0, 1, 2, 3, 4}}, 6, c, 7));
  cr_expect(!plan_migration(before, {1, 6, {0, 1, 2, 3, 4, 6}}, 6, c, 7));
}

Test(relabel, fetches_as_little_as_any_renaming) {
  Random random(8);
  for (int i = 0; i < 150; ++i) {
    const int ranks = 1 + random.below(6), experts = 1 + random.below(12);
    Cluster c = *make_cluster(ranks, experts + random.below(ranks + 1));
    if (i % 4 == 0) c.speed[0] = 2;
    const Loads loads = random_loads(random, 1, 1, experts);
    const Placement before = random_placement(random, loads, c);
    const Placement after = random_placement(random, loads, c);
    std::vector<int> name(ranks);
    std::iota(name.begin(), name.end(), 0);
    int best = 1 << 30;
    do {
      bool allowed = true;
      std::vector<int32_t> row(c.slots());
      for (int r = 0; r < ranks; ++r) {
        allowed &= c.slots_of(r) == c.slots_of(name[r]) && c.speed[r] == c.speed[name[r]];
        for (int k = 0; allowed && k < c.slots_of(r); ++k)
          row[c.first_slot[name[r]] + k] = after.expert[c.first_slot[r] + k];
      }
      if (allowed) best = std::min(best, count_fetches(before.row(0), row, c));
    } while (std::next_permutation(name.begin(), name.end()));
    const std::vector<int32_t> renamed = relabel(before.row(0), after.row(0), c, false);
    cr_expect_eq(count_fetches(before.row(0), renamed, c), best, "case %d", i);
    cr_expect_float_eq(peak_of(loads, {1, c.slots(), renamed}, c), peak_of(loads, after, c),
                       1e-9 * peak_of(loads, after, c) + 1e-300, "case %d", i);
  }
}

Test(relabel, keeps_nodes_together_when_asked) {
  const Cluster c = *make_cluster(4, 4, 2);
  const std::vector<int32_t> before = {0, 1, 2, 3}, after = {3, 1, 0, 2};
  cr_expect(relabel(before, after, c, false) == before);
  // Node {3 1} and node {0 2} stay; both ways round two experts are home.
  cr_expect_eq(count_fetches(before, relabel(before, after, c, true), c), 2);
}
