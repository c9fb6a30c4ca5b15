// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads of a production service, where they are present (RLX_TEST_DATA, default ../shared/data).
#include <criterion/criterion.h>

#include "test/sched/support.h"

using namespace rlx;
using namespace rlx::sched;
using namespace rlx::sched::test;

Test(real_loads, are_balanced_from_scratch_and_followed_within_a_budget) {
  Loads a, b;
  if (!read_real("decode_a", a) || !read_real("decode_b", b)) {
    cr_skip_test("no expert-load/ in RLX_TEST_DATA or ../shared/data");
    return;
  }
  const Cluster c = *make_cluster(32, 288, 4);
  PlanOptions options;
  options.policy = Policy::deepseek;
  const auto eplb = make_plan(a, c, options);
  cr_assert(eplb.has_value());
  cr_expect_geq(eplb->balance(), 0.992);
  options.policy = Policy::search;
  const auto searched = make_plan(a, c, options);
  cr_assert(searched.has_value());
  cr_expect_geq(searched->balance(), 0.9995);
  for (const LayerReport& l : searched->layers) cr_expect_eq(l.duplicates, 0);
  options.from = &searched->placement;
  const struct { double share, balance; } table[] = {{0.11, 0.98}, {0.17, 0.995}};
  for (const auto& row : table) {
    options.max_fetches = static_cast<int64_t>(row.share * 58 * 288);
    const auto moved = make_plan(b, c, options);
    cr_assert(moved.has_value());
    cr_expect_geq(moved->balance(), row.balance, "share=%g", row.share);
    cr_expect_leq(moved->fetches(), options.max_fetches);
    cr_expect(broken(*moved, b, c, options).empty());
  }
}
