// SPDX-License-Identifier: MIT OR Apache-2.0
// The public interface: C and C++.
#include <criterion/criterion.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <rlx/eplb.hpp>
#include <set>

namespace {

using Ids = std::vector<int32_t>;
constexpr rlx_eplb_shape kShape{1, 2, 12, 8, 16, 2, 1};
const std::vector<int64_t> kCounts = {90, 132, 40,  61, 104, 165, 39,  4,   73,  56, 183, 86,
                                      20, 107, 104, 64, 19,  197, 187, 157, 172, 86, 16,  27};

template <class Call>
void expect_refused(Call call, rlx_error code, const char* word) {
  try {
    call();
    cr_expect(false, "not refused: %s", word);
  } catch (const rlx::Error& e) {
    cr_expect_eq(e.code(), code, "%s", word);
    cr_expect(std::string(e.what()).find(word) != std::string::npos, "%s: %s", word, e.what());
  }
}

}  // namespace

Test(api, plans_the_published_example) {
  auto options = rlx::eplb::options();
  options.policy = RLX_EPLB_DEEPSEEK;
  options.groups = 4;
  const auto plan = rlx::eplb::plan(kShape, kCounts, options);
  cr_expect(plan.placement == Ids({5, 6,  5, 7, 8, 4,  3, 4, 10, 9, 10, 2, 0, 1, 11, 1,
                                   7, 10, 6, 8, 6, 11, 8, 9, 2,  4, 5,  1, 5, 0, 3,  1}));
  cr_expect_eq(plan.layers[0].peak, 156);
  cr_expect_eq(plan.layers[1].peak, 179.5);
  const auto best = rlx::eplb::plan(kShape, kCounts);
  cr_expect_eq(best.layers[0].peak, 136);
  cr_expect_eq(best.layers[0].optimal, 1);
  const std::vector<double> same(kCounts.begin(), kCounts.end());
  cr_expect(rlx::eplb::plan(kShape, same).placement == best.placement);
  cr_expect_eq(rlx_eplb_fingerprint(best.placement.data(), 32),
               rlx_eplb_fingerprint(rlx::eplb::plan(kShape, kCounts).placement.data(), 32));
  cr_expect_neq(rlx_eplb_fingerprint(best.placement.data(), 32),
                rlx_eplb_fingerprint(plan.placement.data(), 32));
}

Test(api, moves_within_a_budget_and_says_how) {
  const auto old = rlx::eplb::plan(kShape, kCounts);
  std::vector<int64_t> later = kCounts;
  std::rotate(later.begin(), later.begin() + 5, later.begin() + 12);
  auto options = rlx::eplb::options();
  options.from = old.placement.data();
  options.max_fetches = 3;
  const auto plan = rlx::eplb::plan(kShape, later, options);
  const int fetches = plan.layers[0].fetches + plan.layers[1].fetches;
  cr_expect(fetches > 0 && fetches <= 3);
  cr_expect_lt(plan.layers[0].peak, plan.layers[0].before);
  Ids holed = old.placement;  // without expert 3 in both layers: fetched beyond any limit
  for (int32_t& e : holed) e = e == 3 ? RLX_EPLB_EMPTY : e;
  options.from = holed.data();
  options.max_fetches = 0;
  const auto mended = rlx::eplb::plan(kShape, later, options);
  for (const auto& layer : mended.layers) cr_expect(layer.lost == 1 && layer.fetches == 1);
  const auto migration = rlx::eplb::migrate(kShape, old.placement, plan.placement, 10);
  int on_wire = 0;
  for (const auto& t : migration.transfers) on_wire += t.from != t.to;
  cr_expect_eq(on_wire, fetches);
  cr_expect_eq(std::accumulate(migration.sent.begin(), migration.sent.end(), int64_t{0}),
               10 * fetches);
  int64_t n = 0;
  rlx_eplb_error error{};
  cr_expect_eq(rlx_eplb_migrate(&kShape, old.placement.data(), plan.placement.data(), 10, nullptr,
                                nullptr, 0, &n, nullptr, nullptr, nullptr, &error),
               RLX_ERR_TRUNCATED);
  cr_expect_eq(n, static_cast<int64_t>(migration.transfers.size()));
}

Test(api, inverts_splits_weighs_and_generates) {
  const auto plan = rlx::eplb::plan(kShape, kCounts);
  Ids copies(24), slots(24 * 8);
  cr_assert_eq(
      rlx_eplb_maps(&kShape, plan.placement.data(), 8, copies.data(), slots.data(), nullptr),
      RLX_SUCCESS);
  cr_expect_eq(std::accumulate(copies.begin(), copies.end(), 0), 32);
  for (int i = 0; i < 24; ++i)
    for (int c = 0; c < 8; ++c) {
      if (c >= copies[i])
        cr_expect_eq(slots[i * 8 + c], -1);
      else
        cr_expect_eq(plan.placement[i / 12 * 16 + slots[i * 8 + c]], i % 12);
    }
  rlx_eplb_error error{};
  cr_expect_eq(
      rlx_eplb_maps(&kShape, plan.placement.data(), 1, copies.data(), slots.data(), &error),
      RLX_ERR_TRUNCATED);
  const rlx_eplb_shape one{1, 1, 3, 2, 4, 1, 1};
  cr_expect(rlx::eplb::split(one, std::vector<int64_t>{10, 6, 0}, Ids{0, 1, 0, 2}) ==
            std::vector<int64_t>({2, 6, 8, 0}));
  const rlx_eplb_prospect good{1e6, 0.3, 0.01, 1e-6, 1, 0.3, 0.7, 1000};
  int32_t move = -1;
  double steps = 0;
  cr_expect_eq(rlx_eplb_weigh(&good, &move, &steps, nullptr), RLX_SUCCESS);
  cr_expect(move == 1 && steps > 1.4 && steps < 1.5);
  rlx_eplb_prospect bad = good;
  bad.discount = NAN;
  cr_expect_eq(rlx_eplb_weigh(&bad, &move, &steps, &error), RLX_ERR_INVALID);
  cr_expect_str_eq(error.text, "prospect.discount is nan, want a finite number");
  std::vector<int64_t> counts(24);
  cr_expect_eq(rlx_eplb_generate(&kShape, 7, 0.1, 100000, counts.data(), nullptr), RLX_SUCCESS);
  double noise[2] = {};
  cr_expect_eq(rlx_eplb_noise(&kShape, counts.data(), plan.placement.data(), noise, nullptr),
               RLX_SUCCESS);
  cr_expect(noise[0] > 0.002 && noise[0] < 0.05);
}

Test(api, refuses_and_leaves_its_outputs_alone) {
  std::vector<int64_t> negative = kCounts;
  negative[15] = -1;
  Ids placement(32, 99);
  rlx_eplb_error error{};
  cr_expect_eq(rlx_eplb_plan(&kShape, negative.data(), nullptr, placement.data(), nullptr, &error),
               RLX_ERR_INVALID);
  cr_expect(std::string(error.text).find("expert 3 in layer 1 is -1") != std::string::npos, "%s",
            error.text);
  cr_expect(placement == Ids(32, 99));
  std::vector<double> loads(kCounts.begin(), kCounts.end());
  for (double bad : {std::numeric_limits<double>::quiet_NaN(),
                     std::numeric_limits<double>::infinity(), 0x1.8p63}) {
    loads[0] = bad;
    expect_refused([&] { rlx::eplb::plan(kShape, loads); }, RLX_ERR_INVALID, "expert 0 in layer 0");
  }
  const auto with = [](auto change) {
    auto options = rlx::eplb::options();
    change(options);
    return [options] { rlx::eplb::plan(kShape, kCounts, options); };
  };
  const std::vector<double> speed(8, 0);
  const std::vector<uint8_t> dead(8, 1);
  const Ids wrong(32, 12);
  expect_refused(with([](auto& o) { o.size = 8; }), RLX_ERR_INVALID, "options.size");
  expect_refused(with([](auto& o) { o.policy = 4; }), RLX_ERR_INVALID, "options.policy");
  expect_refused(with([](auto& o) { o.groups = 5; }), RLX_ERR_INVALID, "5 groups");
  expect_refused(with([](auto& o) { o.groups = 0; }), RLX_ERR_INVALID, "0 groups");
  expect_refused(with([](auto& o) { o.fixed_cost = -1; }), RLX_ERR_INVALID, "fixed cost");
  expect_refused(with([](auto& o) { o.rack_price = NAN; }), RLX_ERR_INVALID, "rack_price");
  expect_refused(with([](auto& o) { o.top_k = 0; }), RLX_ERR_INVALID, "top_k");
  expect_refused(with([&](auto& o) { o.speed = speed.data(); }), RLX_ERR_INVALID, "speed 0");
  expect_refused(with([&](auto& o) { o.dead = dead.data(); }), RLX_ERR_INVALID, "no live rank");
  expect_refused(with([&](auto& o) { o.from = wrong.data(); }), RLX_ERR_INVALID, "expert 12");
  expect_refused(with([](auto& o) { o.max_fetches = -7; }), RLX_ERR_INVALID, "-7 slots");
  expect_refused(with([](auto& o) { o.max_fetches = 3; }), RLX_ERR_INVALID,
                 "no placement to start");
  const Ids whole(32, 0);
  for (int policy : {RLX_EPLB_DEEPSEEK, RLX_EPLB_RLX})
    expect_refused(with([&](auto& o) {
                     o.policy = policy;
                     o.from = whole.data();
                     o.max_fetches = 3;
                   }),
                   RLX_ERR_UNSUPPORTED, "keep to no budget");
  for (rlx_eplb_shape bad : {rlx_eplb_shape{0, 2, 12, 8, 16, 2, 1},
                             {1, 2, 12, 8, 0, 2, 1},
                             {1, 2, 12, 8, 16, 9, 1},
                             {1, 2, 12, 8, 16, 2, 3},
                             {1 << 20, 1 << 20, 1 << 20, 8, 16, 2, 1},
                             {1, 2, 12, 8, 11, 2, 1}})
    cr_expect_eq(rlx_eplb_plan(&bad, kCounts.data(), nullptr, placement.data(), nullptr, &error),
                 RLX_ERR_INVALID, "%d ranks", bad.ranks);
  cr_expect_eq(rlx_eplb_plan(nullptr, kCounts.data(), nullptr, placement.data(), nullptr, nullptr),
               RLX_ERR_INVALID);
  const rlx_eplb_shape one{1, 1, 3, 2, 4, 1, 1};
  expect_refused(
      [&] {
        rlx::eplb::split(one, std::vector<int64_t>{1, 1, 1}, Ids{0, 1, 0, 1});
      },
      RLX_ERR_INVALID, "expert 2 in layer 0 has tokens and no slot");
  Ids copies(24), slots(24);
  for (int32_t most : {-1, INT32_MIN})
    cr_expect_eq(rlx_eplb_maps(&kShape, Ids(32).data(), most, copies.data(), slots.data(), &error),
                 RLX_ERR_INVALID);
  Ids there(32);
  for (int i = 0; i < 32; ++i) there[i] = i % 16 % 12;
  Ids back = there;
  std::reverse(back.begin(), back.end());
  expect_refused([&] { rlx::eplb::migrate(kShape, there, back, INT64_MAX); }, RLX_ERR_INVALID,
                 "bytes an expert");
  cr_expect_eq(rlx_eplb_fingerprint(there.data(), -1), rlx_eplb_fingerprint(nullptr, 0));
  for (rlx_eplb_shape bad :
       {rlx_eplb_shape{-1, -2, 12, 8, 16, 2, 1}, {INT32_MAX, INT32_MAX, INT32_MAX, 8, 16, 2, 1}})
    expect_refused([&] { rlx::eplb::plan(bad, kCounts); }, RLX_ERR_INVALID, "shape");
  expect_refused(
      [&] {
        rlx::eplb::plan({1, 2, 12, 8, -16, 2, 1}, kCounts);
      },
      RLX_ERR_INVALID, "shape");
  for (rlx_eplb_shape bad :
       {rlx_eplb_shape{1, 2, 12, -8, 16, 2, 1}, {1, 2, 12, 8, 16, INT32_MAX, 1}})
    expect_refused([&] { rlx::eplb::migrate(bad, there, back, 1); }, RLX_ERR_INVALID, "shape");
  expect_refused([&] { rlx::eplb::plan(kShape, std::vector<int64_t>(3)); }, RLX_ERR_INVALID,
                 "3 elements given, want 24");
}
