// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include "sched/eplb.h"
#include "sched/rlx_policy.h"
#include "test/sched/support.h"

using namespace rlx;
using namespace rlx::sched;
using namespace rlx::sched::test;

namespace {

// The published example: two layers of 12 experts on 16 slots.
Loads published() {
  return {1, 2, 12, {90, 132, 40,  61, 104, 165, 39,  4,   73,  56, 183, 86,
                     20, 107, 104, 64, 19,  197, 187, 157, 172, 86, 16,  27}};
}

using Row = std::vector<int32_t>;
Row row_of(const Placement& p, int layer) { return {p.row(layer).begin(), p.row(layer).end()}; }

std::vector<double> times(const Loads& loads, const Placement& p, int layer, const Cluster& c) {
  return rank_times(loads.row(0, layer), p.row(layer), c);
}

}  // namespace

Test(eplb, reproduces_the_published_example_hierarchical_and_global) {
  const Loads loads = published();
  const Cluster nodes = *make_cluster(8, 16, 2);
  const auto grouped = deepseek_eplb(loads, nodes, 4);
  cr_assert(grouped.has_value());
  cr_expect(row_of(*grouped, 0) == Row({5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  cr_expect(row_of(*grouped, 1) == Row({7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
  cr_expect(times(loads, *grouped, 0, nodes) ==
            std::vector<double>({121.5, 86.5, 125, 113, 147.5, 131.5, 156, 152}));
  cr_expect(times(loads, *grouped, 1, nodes) ==
            std::vector<double>({173, 179.5, 120.5, 172, 123, 152, 118.5, 117.5}));
  const Cluster flat = *make_cluster(8, 16);
  const auto global = deepseek_eplb(loads, flat, 1);
  cr_assert(global.has_value());
  cr_expect(row_of(*global, 0) == Row({10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1}));
  cr_expect(row_of(*global, 1) == Row({1, 10, 2, 4, 5, 11, 5, 0, 6, 7, 6, 3, 8, 8, 9, 7}));
  // Groups that the nodes do not divide: the global plan.
  cr_expect(*deepseek_eplb(loads, nodes, 3) == *global);
}

Test(eplb, agrees_with_the_original_where_it_is_weak) {
  // Longest first falls into the trap; all redundants go to one giant; ties go to expert 0.
  const struct {
    std::vector<double> load;
    int ranks, slots;
    Row want;
    double peak;
  } table[] = {
      {{100, 1, 1, 1}, 4, 8, {0, 0, 0, 1, 0, 2, 0, 3}, 40},
      {{0, 0, 0, 0}, 4, 8, {}, 0},
      {{3, 3, 2, 2, 2, 0}, 2, 6, {}, 7},
      {{9, 8, 7, 6, 5, 4, 3, 2, 1}, 3, 9, {}, 16},
      {std::vector<double>(8, 10), 4, 16, {}, 20},
      {{9, 1, 5, 3}, 4, 4, {0, 1, 2, 3}, 9},
      {{7}, 4, 4, {0, 0, 0, 0}, 1.75},
      {{0x1p24 + 1, 0x1p24, 1, 1}, 2, 4, {0, 3, 1, 2}, 0x1p24 + 2},
  };
  for (const auto& row : table) {
    const Loads loads = one_layer(row.load);
    const Cluster c = *make_cluster(row.ranks, row.slots);
    const auto plan = deepseek_eplb(loads, c, 1);
    cr_assert(plan.has_value());
    if (!row.want.empty()) cr_expect(row_of(*plan, 0) == row.want, "slots=%d", row.slots);
    cr_expect_float_eq(peak_of(loads, *plan, c), row.peak, 1e-9, "slots=%d", row.slots);
  }
  const Loads loads = one_layer({10, 10, 1, 1, 5, 5, 4, 4});
  const Cluster c = *make_cluster(4, 8, 2);
  const auto plan = deepseek_eplb(loads, c, 4);
  cr_expect(row_of(*plan, 0) == Row({0, 2, 1, 3, 4, 6, 5, 7}));
  cr_expect(times(loads, *plan, 0, c) == std::vector<double>({11, 11, 9, 9}));
}

Test(eplb, says_what_it_cannot_place) {
  const Loads loads = one_layer({1, 2, 3, 4});
  const struct {
    Cluster cluster;
    int groups;
    const char* word;
  } table[] = {{*make_cluster(2, 3), 1, "3 slots for 4 experts"},
               {*make_cluster(2, 5), 1, "5 slots on 2 ranks"},
               {*make_cluster(2, 4), 3, "3 groups"}};
  for (const auto& row : table) {
    const auto plan = deepseek_eplb(loads, row.cluster, row.groups);
    cr_assert(!plan.has_value(), "%s", row.word);
    cr_expect(plan.error().text.find(row.word) != std::string::npos, "%s",
              plan.error().text.c_str());
  }
  cr_expect(!make_cluster(0, 4) && !make_cluster(4, 0) && !make_cluster(2, 4, 3) &&
            !make_cluster(4, 8, 2, 3));
}

Test(rlx_policy, places_by_descending_hits_with_ties_to_the_lower_id_and_rank) {
  const std::vector<double> hits = {5, 9, 9, 1, 5, 0};
  const auto rank = rebalance_placement(hits, 2);
  // 1 -> 0, 2 -> 1, 0 -> 0 (9 = 9: lower rank), 4 -> 1, 3 -> 0, 5 -> 1.
  cr_assert(rank.has_value());
  cr_expect(*rank == Row({0, 0, 1, 0, 1, 1}));
  cr_expect(!rebalance_placement(hits, 4) && !rebalance_placement(hits, 0) &&
            !rebalance_placement({}, 1));
}

Test(rlx_policy, replicates_the_hottest_that_fits_and_charges_all_its_hits) {
  const std::vector<double> hits = {8, 4, 2, 1};
  // Primaries 0 -> 0, 1 -> 1, 2 -> 1, 3 -> 0: loads 9 and 6, two more slots each.
  const auto map = rebalance_with_replicas(hits, 2, 8);
  cr_assert(map.has_value());
  cr_expect(map->owners == std::vector<Row>({{0, 1}, {0, 1}, {0, 1}, {0, 1}}));
  cr_expect(map->local_slots == std::vector<Row>({{0, 1, 2, 3}, {0, 1, 2, 3}}));
  const auto one = rebalance_with_replicas(hits, 2, 6);
  cr_assert(one.has_value());
  // 0 to rank 1 (14 hits), then 1 to rank 0 (13), the only one with room and without it.
  cr_expect(one->owners == std::vector<Row>({{0, 1}, {0, 1}, {1}, {0}}));
  cr_expect(one->local_slots == std::vector<Row>({{0, 1, 3}, {0, 1, 2}}));
  const auto full = rebalance_with_replicas(hits, 2, 10);
  cr_assert(!full.has_value());
  cr_expect(full.error().text.find("2 of 10") != std::string::npos, "%s",
            full.error().text.c_str());
  cr_expect(!rebalance_with_replicas(hits, 2, 3) && !rebalance_with_replicas(hits, 2, 7));
}
