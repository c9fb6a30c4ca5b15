// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "coll/select.h"
#include "coll/shown.h"

using namespace rlx;

namespace {

Shape shape_of(Coll coll, std::uint64_t count, int n_ranks = 4, bool one_host = false) {
  return {
      .coll = coll, .dtype = Dtype::f32, .n_ranks = n_ranks, .count = count, .one_host = one_host};
}

std::string chosen(const std::string& rules, const Shape& shape, std::string_view fabric = "tcp") {
  auto parsed = parse_rules(rules, "r");
  cr_assert(parsed.has_value(), "%s", parsed ? "" : parsed.error().text.c_str());
  Selector selector(model_of(fabric, shape.n_ranks, 64), *parsed);
  return std::string(selector.choose(shape).algorithm->name);
}

std::string error_of(const std::string& rules) {
  const auto parsed = parse_rules(rules, "my.rules");
  cr_assert(!parsed.has_value(), "accepted: %s", rules.c_str());
  cr_assert(parsed.error().code == Code::kInvalid);
  return parsed.error().text;
}

}  // namespace

Test(select, takes_the_first_rule_that_matches) {
  const std::string rules =
      "# by size\n"
      "\n"
      "all_reduce fabric=tcp ranks=2-8 bytes=0-64K dtype=* -> recursive_doubling  # small\n"
      "all_reduce bytes=64K- dtype=f64 -> direct\n"
      "all_reduce bytes=64K- -> ring\n"
      "* ranks=2 -> auto\n";
  cr_assert_eq(chosen(rules, shape_of(Coll::all_reduce, 1)), "recursive_doubling");
  cr_assert_eq(chosen(rules, shape_of(Coll::all_reduce, 16384)), "recursive_doubling");
  cr_assert_eq(chosen(rules, shape_of(Coll::all_reduce, 16385)), "ring");
  Shape wide = shape_of(Coll::all_reduce, 16385);
  wide.dtype = Dtype::f64;
  cr_assert_eq(chosen(rules, wide), "direct");
  cr_assert_eq(chosen("all_reduce fabric=shm -> ring", shape_of(Coll::all_reduce, 1)), "one_shot");
}

Test(select, passes_over_a_rule_that_is_not_valid_and_counts_it) {
  auto rules = parse_rules("all_reduce -> lines\nall_reduce mode=exact -> ring\n", "r");
  Selector selector(model_of("tcp", 4, 64), *rules);
  Shape exact = shape_of(Coll::all_reduce, 4);
  exact.mode = Mode::exact;
  const Choice choice = selector.choose(exact);
  cr_assert_null(choice.rule);
  cr_assert_eq(choice.algorithm->name, "one_shot");
  cr_assert_eq(selector.rules_passed_over(), 2);
}

Test(select, names_line_word_and_nearest_known_word_of_a_wrong_rule) {
  const struct {
    const char* rules;
    const char* wants[3];
  } rows[] = {
      {"\nall_redcue -> ring", {"my.rules:2", "'all_redcue'", "'all_reduce'"}},
      {"all_reduce fabrc=tcp -> ring", {"my.rules:1", "'fabrc'", "'fabric'"}},
      {"all_reduce fabric=tpc -> ring", {"my.rules:1", "'tpc'", "'tcp'"}},
      {"all_reduce -> rnig", {"my.rules:1", "'rnig'", "'ring'"}},
      {"all_reduce dtype=f33 -> ring", {"my.rules:1", "'f33'", "'f32'"}},
      {"all_reduce bytes=8X -> ring", {"my.rules:1", "bytes=8X", "A-B"}},
      {"all_reduce bytes=9-8 -> ring", {"my.rules:1", "bytes=9-8", "range"}},
      {"all_reduce ring", {"my.rules:1", "->", "ALGORITHM"}},
      {"broadcast -> ring", {"my.rules:1", "'ring'", "broadcast"}},
  };
  for (const auto& row : rows) {
    const std::string text = error_of(row.rules);
    for (const char* want : row.wants)
      cr_assert(text.find(want) != std::string::npos, "%s: %s", row.rules, text.c_str());
  }
}

Test(select, explains_every_candidate_with_its_cost_or_why_not) {
  Selector selector(model_of("tcp", 4, 64), {});
  const auto candidates = selector.explain(shape_of(Coll::all_reduce, 1 << 20));
  std::size_t n = 0;
  for (const Algorithm* algorithm : algorithms()) n += algorithm->coll == Coll::all_reduce;
  cr_assert_eq(candidates.size(), n);
  double before = 0;
  bool rejected = false;
  for (const Candidate& candidate : candidates) {
    if (!candidate.reject.empty()) {
      rejected = true;
      continue;
    }
    cr_assert(!rejected, "valid ones come first");
    cr_assert_geq(candidate.cost_us, before);
    before = candidate.cost_us;
  }
  cr_assert(rejected, "shared memory must be rejected over tcp");
}

Test(select, finds_a_valid_algorithm_for_every_call) {
  for (int c = 0; c < kCollCount; ++c)
    for (const int n_ranks : {1, 2, 7, 300})
      for (const bool one_host : {false, true})
        for (int mode = 0; mode < 3; ++mode)
          for (const std::uint64_t count : {0UL, 1UL, 5000UL, 1UL << 33}) {
            Shape shape = shape_of(static_cast<Coll>(c), count, n_ranks, one_host);
            shape.mode = static_cast<Mode>(mode);
            Selector selector(model_of(one_host ? "shm" : "tcp", n_ranks, 2), {});
            cr_assert_not_null(selector.choose(shape).algorithm);
          }
}

// Four ranks on two cores that all sum everything do twice the work in the time of one.
Test(select, shares_out_sums_that_take_long_where_ranks_outnumber_cores) {
  const auto crowded = [](int n_ranks, std::uint64_t n_bytes, Mode mode) {
    Shape shape = shape_of(Coll::all_reduce, n_bytes / 4, n_ranks, true);
    shape.mode = mode;
    return std::string(Selector(model_of("shm", n_ranks, 2), {}).choose(shape).algorithm->name);
  };
  for (const int n_ranks : {4, 8}) {
    cr_assert_eq(crowded(n_ranks, 1 << 10, Mode::fast), "slots");
    cr_assert_eq(crowded(n_ranks, 1 << 10, Mode::exact), "slots");
    cr_assert_eq(crowded(n_ranks, 32 << 10, Mode::exact), "shared");
  }
  cr_assert_eq(crowded(8, 32 << 10, Mode::fast), "shared");
}

Test(select, stores_results_past_caches_that_they_would_fill) {
  Model model = model_of("shm", 4, 64);
  model.cache_bytes = 32 << 20;
  const Selector selector(model, {});
  const auto stores = [&](std::uint64_t count) {
    Shape shape{.coll = Coll::all_reduce, .dtype = Dtype::f32, .n_ranks = 4, .one_host = true};
    shape.count = count;
    return selector.params(shape).results;
  };
  // Input and output of four ranks.
  cr_expect(stores((1 << 20) - 1) == kernels::Stores::cached);
  cr_expect(stores(1 << 20) == kernels::Stores::streaming);
}

namespace {

// Ranks that call broadcast over and over, one after the other, and what either way takes them.
struct Showing {
  explicit Showing(int n_ranks) : shown(n_ranks), cost(n_ranks) {
    for (int r = 0; r < n_ranks; ++r) {
      memory.emplace_back(std::make_unique<std::byte[]>(sizeof(Area) + alignof(Area)));
      const auto at = reinterpret_cast<std::uintptr_t>(memory.back().get());
      areas.push_back(
          reinterpret_cast<Area*>((at + alignof(Area) - 1) / alignof(Area) * alignof(Area)));
    }
  }
  // How many of the calls streamed; all ranks must do the same.
  int calls(int n, Coll coll = Coll::broadcast, std::uint64_t n_bytes = 100 << 10) {
    int n_streamed = 0;
    for (int i = 0; i < n; ++i) {
      int streams = 0;
      for (std::size_t r = 0; r < areas.size(); ++r)
        streams += shown[r].begin(areas, coll, n_bytes) == kernels::Stores::streaming;
      cr_assert(streams == 0 || streams == static_cast<int>(areas.size()), "%d of %zu ranks stream",
                streams, areas.size());
      n_streamed += streams != 0;
      // A rank may be through before another has begun; the slow ones publish last.
      for (std::size_t r = areas.size(); r-- > 0;)
        if (shown[r].asks()) shown[r].took(*areas[r], cost[r][streams != 0]);
    }
    return n_streamed;
  }

  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<Area*> areas;
  std::vector<ShownStores> shown;
  std::vector<std::array<double, 2>> cost;  // cached, streaming
};

}  // namespace

// The root of a broadcast stores faster into its cache; what that costs the others only they see.
Test(shown, all_ranks_store_as_is_best_for_all) {
  Showing far(3);
  far.cost = {{{1.0, 1.2}}, {{5.0, 1.0}}, {{5.0, 1.0}}};
  far.calls(14);
  cr_expect_eq(far.calls(50), 50);
  cr_expect_eq(far.calls(12), 6, "soon again");
  // Placed near each other meanwhile.
  far.cost = {{{1.0, 1.2}}, {{1.0, 2.0}}, {{1.0, 2.0}}};
  far.calls(3000);
  cr_expect_leq(far.calls(1000), 6);
  cr_expect_eq(far.calls(12, Coll::all_reduce), 6, "another collective is tried by itself");
  cr_expect_eq(far.calls(4, Coll::broadcast, 16 << 20), 2, "and so is another size");
}
