// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs the ranks of a small job inside a test: as forked processes or as threads, with a Bootstrap
// in memory and no launcher. Never leaves a process behind: a rank that fails, or the time limit,
// ends all of them, and ranks die with the process that forked them.
#pragma once

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/bootstrap.h"

namespace rlx::test {

struct WorldOptions {
  std::int64_t timeout_ms = 60000;
  bool know_locals = true;    // facts().local_ranks names all ranks, else it is empty
  bool report_deaths = true;  // the bootstrap's watch handler hears of dead ranks (fork only)
  std::vector<int> expect_dead = {};  // ranks that may end by a signal or a code
};

struct WorldResult {
  bool ok = false;
  std::string text;         // what failed, for the test's message
  std::vector<int> status;  // fork: waitpid's status of each rank
};

// What a rank does. It succeeds by returning; RLX_EXPECT or an exception fails it.
using RankBody = std::function<void(Bootstrap&)>;

WorldResult fork_world(int n_ranks, const RankBody& body, const WorldOptions& options = {});
// A rank that fails while others wait for it cannot be undone here: the time limit ends the whole
// process then, with a message.
WorldResult thread_world(int n_ranks, const RankBody& body, const WorldOptions& options = {});

struct RankFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A number, 0 at first, that the ranks of worlds that are forked later share. Lives as long as the
// process.
std::atomic<int>& shared_number();

}  // namespace rlx::test

// Fails this rank with `condition` and a formatted message unless the condition holds.
#define RLX_EXPECT(condition, ...)                                                            \
  do {                                                                                        \
    if (!(condition))                                                                         \
      throw ::rlx::test::RankFailed(fmt::format("{}:{}: {} is false: {}", __FILE__, __LINE__, \
                                                #condition, fmt::format(__VA_ARGS__)));       \
  } while (false)

// Fails this rank unless `result` (a Result or Status) has a value.
#define RLX_EXPECT_OK(result)                                                            \
  do {                                                                                   \
    if (auto&& rlx_expect_result = (result); !rlx_expect_result)                         \
      throw ::rlx::test::RankFailed(                                                     \
          fmt::format("{}:{}: {}", __FILE__, __LINE__, rlx_expect_result.error().text)); \
  } while (false)
