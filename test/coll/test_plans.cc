// SPDX-License-Identifier: MIT OR Apache-2.0
// Every algorithm, run by the simulator: all numbers of ranks, awkward counts, roots, in place.
#include <criterion/criterion.h>
#include <fmt/format.h>

#include <cstring>
#include <random>
#include <set>

#include "coll/algorithm.h"
#include "coll/simulate.h"
#include "test/coll/oracle.h"

using namespace rlx;
using namespace rlx::test;

namespace {

struct Running {
  Case c;
  std::vector<std::byte*> memory;  // by rank
};

// Runs the cases one after the other on all ranks, all under way at once; fails the test with the
// first difference.
void run_cases(
    Simulator& sim, const std::vector<Case>& cases, const std::string& what,
    const std::function<bool(int)>& pooled = [](int) { return false; }) {
  std::vector<Running> running;
  std::vector<std::unique_ptr<BoundCall>> bound;
  for (const Case& c : cases) {
    Running run{c, {}};
    for (int r = 0; r < c.n_ranks; ++r) {
      const std::vector<std::byte> bytes = before(c, r);
      std::byte* memory = pooled(r) ? sim.pool_alloc(r, bytes.size()) : sim.alloc(r, bytes.size());
      if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
      run.memory.push_back(memory);
      bind_call(*bound.emplace_back(std::make_unique<BoundCall>()), c, r, memory);
      sim.start(r, bound.back()->call);
    }
    running.push_back(std::move(run));
  }
  const Status status = sim.run();
  cr_assert(status.has_value(), "%s, %s ...: %s", what.c_str(), to_string(cases[0]).c_str(),
            status ? "" : status.error().text.c_str());
  for (const Running& run : running)
    for (int r = 0; r < run.c.n_ranks; ++r) {
      const std::vector<std::byte> want = after(run.c, r);
      cr_assert(want.empty() || std::memcmp(want.data(), run.memory[r], want.size()) == 0,
                "%s, %s: wrong bytes on rank %d", what.c_str(), to_string(run.c).c_str(), r);
    }
  for (int r = 0; r < sim.n_ranks(); ++r) sim.take_results(r);
  sim.free_all();
}

Mode mode_of(const Algorithm& algorithm, int n) {
  Shape shape{.coll = algorithm.coll, .dtype = Dtype::f32, .n_ranks = 4, .one_host = true};
  shape.mode = static_cast<Mode>(n % 3);
  return algorithm.reject(shape) == nullptr ? shape.mode : Mode::fast;
}

void check_faults(Simulator& sim, const Algorithm& algorithm, const Case& c) {
  for (int r = 0; r < c.n_ranks; ++r) {
    BoundCall bound;
    std::vector<std::byte> memory(memory_of(c, r).n_bytes + 1);
    bind_call(bound, c, r, memory.data());
    const Shape shape = sim.collectives(r).shape_of(bound.call);
    if (algorithm.reject(shape) != nullptr) return;
    const std::string fault = check_plan(algorithm.plan(shape, Params{}), shape);
    cr_assert(fault.empty(), "%s, %s, rank %d: %s", std::string(algorithm.name).c_str(),
              to_string(c).c_str(), r, fault.c_str());
  }
}

// Small and awkward counts for every root, in place and not; a larger one for a few.
std::vector<Case> awkward_cases(const Algorithm& algorithm, int p) {
  const auto n = static_cast<std::uint64_t>(p);
  std::vector<Case> cases;
  int salt = 0;
  for (const std::uint64_t count : std::set<std::uint64_t>{0, 1, n - 1, n, n + 1, 10000})
    for (int root = 0; root < (is_rooted(algorithm.coll) ? p : 1); ++root) {
      if (count == 10000 && root != 0 && root != p / 2) continue;
      for (const bool in_place : {false, true}) {
        Case c{algorithm.coll, Dtype::i32, Op::sum, Mode::fast, p, root, count, in_place, ++salt};
        if (reduces(c.coll) && salt % 2 == 0) {
          c.dtype = Dtype::f32;
          c.op = salt % 4 == 0 ? Op::avg : Op::sum;
          c.mode = mode_of(algorithm, salt / 2);
        }
        cases.push_back(c);
      }
    }
  return cases;
}

bool needs_host(const Algorithm& algorithm) {
  const Shape apart{.coll = algorithm.coll, .n_ranks = 4, .one_host = false};
  return algorithm.reject(apart) != nullptr;
}

void run_algorithm(const Algorithm& algorithm, int p) {
  SimOptions options;
  options.one_host = needs_host(algorithm);
  options.seed = static_cast<std::uint64_t>(p) * 1000 + algorithm.name.size();
  options.cores = p % 2 == 0 ? 64 : 1;
  if (p % 3 == 0) options.cache_bytes = 1;
  options.rules = fmt::format("{} -> {}", name_of(algorithm.coll), algorithm.name);
  Simulator sim(p, options);
  const std::string what = fmt::format("{} {}", name_of(algorithm.coll), algorithm.name);
  const std::vector<Case> cases = awkward_cases(algorithm, p);
  for (std::size_t at = 0; at < cases.size(); at += 5) {
    const std::vector<Case> some(
        cases.begin() + static_cast<std::ptrdiff_t>(at),
        cases.begin() + static_cast<std::ptrdiff_t>(std::min(at + 5, cases.size())));
    for (const Case& c : some)
      if (c.count < 10000 && (p < 10 || c.root < 2)) check_faults(sim, algorithm, c);
    // All pooled, none, or some.
    const auto pooled = [&](int r) { return at % 3 == 1 || (at % 3 == 2 && r % 2 == 0); };
    run_cases(sim, some, what, pooled);
  }
}

}  // namespace

Test(plans, give_the_right_bytes_for_every_algorithm_number_of_ranks_count_and_root,
     .timeout = 300) {
  for (const Algorithm* algorithm : algorithms())
    for (int p = 1; p <= 17; ++p) run_algorithm(*algorithm, p);
}

Test(plans, survive_many_segments, .timeout = 120) {
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->coll == Coll::barrier) continue;
    for (const int p : {2, 3, 5}) {
      SimOptions options;
      if (p == 3) options.cache_bytes = 1;
      options.one_host = needs_host(*algorithm);
      options.rules = fmt::format("{} -> {}", name_of(algorithm->coll), algorithm->name);
      Simulator sim(p, options);
      // 2.4 MB of i32 in one block: several segments of every kind.
      Case c{algorithm->coll, Dtype::i32, Op::sum, Mode::fast, p, p - 1, 600001, false, p};
      Case again = c;
      again.in_place = true;
      again.count = 300007;
      run_cases(sim, {c, again, c}, fmt::format("{}", algorithm->name));
    }
  }
}

Test(plans, do_not_disturb_each_other_when_mixed_on_one_communicator, .timeout = 300) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const int p = 2 + static_cast<int>(random() % 7);
    SimOptions options;
    options.one_host = round % 3 != 0;
    options.cores = round % 2 == 0 ? 64 : 1;
    options.seed = 77 + static_cast<std::uint64_t>(round);
    Simulator sim(p, options);
    std::vector<Case> cases;
    for (int i = 0; i < 12; ++i) {
      Case c;
      c.coll = static_cast<Coll>(random() % kCollCount);
      c.n_ranks = p;
      c.root = static_cast<int>(random() % static_cast<unsigned>(p));
      const int magnitude = static_cast<int>(random() % 6);
      c.count = random() % (std::uint64_t{1} << (3 * magnitude + 2));
      c.in_place = random() % 2 == 0;
      c.salt = i;
      cases.push_back(c);
    }
    const unsigned mask = random();
    run_cases(sim, cases, fmt::format("round {}", round),
              [mask](int r) { return (mask >> r & 1) != 0; });
  }
}

Test(plans, say_what_is_wrong_with_a_bad_plan) {
  Shape shape{.coll = Coll::all_reduce, .dtype = Dtype::u8, .n_ranks = 2, .count = 16};
  auto racy = PlanBuilder::graph();
  racy.recv(1, {Space::out}, 16, 0);
  racy.copy({Space::out, 0, 8}, {Space::in}, 8);
  cr_assert_eq(check_plan(std::move(racy).seal(), shape),
               "steps 0 and 1 touch the same bytes in no order");
  auto wide = PlanBuilder::graph();
  wide.send(1, {Space::in, 0, 8}, 9, 0);
  cr_assert_eq(check_plan(std::move(wide).seal(), shape), "step 0 goes beyond its space");
  auto circle = PlanBuilder::graph();
  const auto a = circle.copy({Space::out}, {Space::in}, 1);
  const auto b = circle.copy({Space::out}, {Space::in}, 1);
  circle.after(a, b);
  circle.after(b, a);
  cr_assert_eq(check_plan(std::move(circle).seal(), shape),
               "the steps depend on each other in a circle");
}
