// SPDX-License-Identifier: MIT OR Apache-2.0
// A world without the C interface: how it is left.
#include <criterion/criterion.h>
#include <stdlib.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "coll/world.h"
#include "test/support/command.h"
#include "test/support/fork_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Hands everything on, and notes what time is left when the job is left.
class Watched final : public Bootstrap {
 public:
  Watched(Bootstrap& inner, std::int64_t& left_ns) : inner_(inner), left_ns_(left_ns) {}
  const BootstrapFacts& facts() const override { return inner_.facts(); }
  Status put(std::string_view blob) override { return inner_.put(blob); }
  Status fence(Deadline deadline) override { return inner_.fence(deadline); }
  Result<std::string> get(int rank) override { return inner_.get(rank); }
  [[noreturn]] void abort(int exit_code, std::string_view why) override {
    inner_.abort(exit_code, why);
    std::abort();  // not reached; g++ does not see that a virtual call never returns
  }
  Status finalize(Deadline deadline) override {
    left_ns_ = deadline.left_ns();
    return {};
  }
  void watch(std::function<void(int, std::string)> on_failure) override {
    inner_.watch(std::move(on_failure));
  }

 private:
  Bootstrap& inner_;
  std::int64_t& left_ns_;
};

Status split(World& world, int colour, Purpose purpose) {
  const auto made = world.split(world.world(), colour, 0, "part", purpose);
  return made ? Status() : fail(made.error().code, made.error().text);
}

}  // namespace

// What is made of the same collective is told apart all the same.
Test(world, names_calls_that_make_or_leave_communicators, .timeout = 100) {
  const auto dup = [](World& world) { return split(world, 0, Purpose::comm_dup); };
  const auto part = [](World& world) { return split(world, 0, Purpose::comm_split); };
  const auto barrier = [](World& world) {
    return world.world().collectives().run({.coll = Coll::barrier}, World::deadline());
  };
  const auto leave = [](World& world) { return world.finalize(); };
  const struct {
    std::function<Status(World&)> most, odd;
    const char *most_text, *odd_text;
  } table[] = {{dup, part, "called comm_dup#1", "rank 1 called comm_split#1"},
               {barrier, leave, "called barrier#1", "rank 1 called finalize#1"}};
  for (const auto& row : table) {
    const WorldResult result = fork_world(3, [&](Bootstrap& bootstrap) {
      std::int64_t left_ns = -1;
      auto world = World::create(std::make_unique<Watched>(bootstrap, left_ns));
      RLX_EXPECT_OK(world);
      const Status status = (bootstrap.facts().rank == 1 ? row.odd : row.most)(**world);
      RLX_EXPECT(!status && status.error().code == Code::kMismatch &&
                     holds(status.error().text, row.most_text) &&
                     holds(status.error().text, row.odd_text),
                 "{}", status ? "success" : status.error().text);
    });
    cr_assert(result.ok, "%s", result.text.c_str());
  }
}

Test(world, is_left_within_one_deadline_when_a_rank_never_leaves, .timeout = 100) {
  ::setenv("RLX_TIMEOUT_MS", "1000", 1);
  const WorldResult result = fork_world(3, [](Bootstrap& bootstrap) {
    std::int64_t left_ns = -1;
    auto world = World::create(std::make_unique<Watched>(bootstrap, left_ns));
    RLX_EXPECT_OK(world);
    if (bootstrap.facts().rank != 1) {
      const Status left = (*world)->finalize();
      RLX_EXPECT(!left && left.error().code == Code::kTimeout, "no timeout");
      RLX_EXPECT(left_ns == 0, "{} ns more are waited", left_ns);
    }
    RLX_EXPECT_OK(bootstrap.fence(Deadline::after_ms(20000)));
  });
  cr_assert(result.ok, "%s", result.text.c_str());
}
