// SPDX-License-Identifier: MIT OR Apache-2.0
// What the engine itself costs: a step of a chain, a step of a graph, a whole call, the making of a
// plan. One process, no peer; medians of many rounds.
//
//   build/contrib/bench/engine
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "base/clock.h"
#include "coll/algorithm.h"
#include "coll/collectives.h"
#include "coll/task.h"

namespace {

using namespace rlx;

// A job of one rank needs nothing from the fabrics.
class NoLinks final : public Links {
 public:
  Request* isend(int, std::uint64_t, const void*, std::uint64_t) override { return nullptr; }
  Request* irecv(int, std::uint64_t, std::uint64_t, void*, std::uint64_t) override {
    throw std::logic_error("nobody sends");
  }
  bool cancel(Request*) override { return false; }
  bool crowded() const override { return false; }
  void abandon(Request*, std::int64_t) override {}
  bool poll() override { return false; }
  const Error* failed(int) override { return nullptr; }
  int first_failed() override { return -1; }
  std::string host_of(int) override { return {}; }
  void tell(int, std::uint64_t, std::string_view) override {}
  std::optional<Message> take(std::uint64_t, std::uint64_t) override { return std::nullopt; }
  bool in_pool(const void*, std::uint64_t) override { return false; }
  std::byte* pool_pointer(int, std::uint64_t, std::uint64_t) override { return nullptr; }
  void ring(std::span<const int>) override {}
  Status until(Turn (*)(void*), void*, Deadline) override { return {}; }
};

double median_ns(int n_inner, const std::function<void()>& work) {
  std::vector<double> rounds;
  for (int round = 0; round < 101; ++round) {
    const std::int64_t began = now_ns();
    for (int i = 0; i < n_inner; ++i) work();
    rounds.push_back(static_cast<double>(now_ns() - began) / n_inner);
  }
  std::nth_element(rounds.begin(), rounds.begin() + 50, rounds.end());
  return rounds[50];
}

constexpr std::uint64_t kBytes = 8;  // what a step copies

Plan chain_of(int n_steps) {
  auto b = PlanBuilder::chain();
  for (int i = 0; i < n_steps; ++i) b.copy({Space::out}, {Space::in}, kBytes);
  return std::move(b).seal();
}

// Steps that each wait for the one before, or two such threads side by side.
Plan graph_of(int n_steps, int n_threads) {
  auto b = PlanBuilder::graph();
  for (int i = 0; i < n_steps; ++i) {
    const auto step = b.copy({Space::out}, {Space::in}, kBytes);
    if (i >= n_threads) b.after(step, step - static_cast<std::uint32_t>(n_threads));
  }
  return std::move(b).seal();
}

double run_ns(Engine& engine, Channel& channel, const Plan& plan) {
  std::uint64_t in = 1, out = 0;
  Job job;
  job.channel = &channel;
  job.plan = &plan;
  job.in = &in;
  job.out = &out;
  return median_ns(2000, [&] { (void)engine.run(job, Deadline::never()); });
}

void show(const char* what, double ns) { fmt::print("{:<52}{:>9.1f} ns\n", what, ns); }

}  // namespace

int main() {
  NoLinks links;
  Engine engine(links);
  Group group;
  group.world = {0};
  group.name = "alone";
  Channel channel(group);
  constexpr int kSteps = 101;
  const auto each = [&](const Plan& one, const Plan& many) {
    return (run_ns(engine, channel, many) - run_ns(engine, channel, one)) / (kSteps - 1);
  };
  show("bind and run a plan of one step", run_ns(engine, channel, chain_of(1)));
  show("a further step of a chain (copies 8 bytes)", each(chain_of(1), chain_of(kSteps)));
  show("a further step of a graph", each(graph_of(1, 1), graph_of(kSteps, 1)));
  show("a further step of a graph, two threads", each(graph_of(1, 2), graph_of(kSteps, 2)));

  Collectives alone(engine, group, Selector(model_of("self", 1, 1), {}));
  std::uint64_t in = 1, out = 0;
  const Call call{
      .coll = Coll::all_reduce, .dtype = Dtype::u64, .count = 1, .in = &in, .out = &out};
  show("all_reduce of one rank: look up, bind, run",
       median_ns(2000, [&] { (void)alone.run(call, Deadline::never()); }));
  const std::vector<std::uint64_t> counts(8, 1), displs = {0, 1, 2, 3, 4, 5, 6, 7};
  const Blocks mine{{counts.data(), 1}, {displs.data(), 1}}, all{counts, displs};
  const Call v_call{.coll = Coll::all_to_allv,
                    .dtype = Dtype::u64,
                    .in = &in,
                    .out = &out,
                    .send = mine,
                    .recv = mine};
  show("all_to_allv of one rank: look up, bind, run",
       median_ns(2000, [&] { (void)alone.run(v_call, Deadline::never()); }));
  const Shape v_shape{
      .coll = Coll::all_to_allv, .dtype = Dtype::u64, .n_ranks = 8, .send = all, .recv = all};
  const Algorithm* pairwise = find_algorithm(Coll::all_to_allv, "pairwise");
  show("making the plan of an all_to_allv of 8 ranks",
       median_ns(50, [&] { (void)pairwise->plan(v_shape, {}); }));
  const Shape shape{.coll = Coll::all_reduce, .dtype = Dtype::f32, .n_ranks = 8, .count = 1 << 20};
  const Algorithm* ring = find_algorithm(Coll::all_reduce, "ring");
  show("making the plan of a ring of 8 ranks",
       median_ns(50, [&] { (void)ring->plan(shape, Params{}); }));
  return 0;
}
