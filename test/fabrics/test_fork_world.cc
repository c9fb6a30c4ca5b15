// SPDX-License-Identifier: MIT OR Apache-2.0
// The support that other tests stand on.
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>

#include "test/support/fork_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

void exchange_blobs(Bootstrap& boot) {
  const int me = boot.facts().rank;
  RLX_EXPECT_OK(boot.put(fmt::format("blob of {}", me)));
  RLX_EXPECT_OK(boot.fence(Deadline::after_ms(10000)));
  for (int r = 0; r < boot.facts().size; ++r)
    RLX_EXPECT(boot.get(r).value() == fmt::format("blob of {}", r), "rank {}", r);
  for (int i = 0; i < 50; ++i) RLX_EXPECT_OK(boot.fence(Deadline::after_ms(10000)));
}

}  // namespace

Test(fork_world, ranks_exchange_blobs_as_processes_and_as_threads, .timeout = 60) {
  for (int n : {1, 2, 5, 16}) {
    const WorldResult forked = fork_world(n, exchange_blobs);
    cr_assert(forked.ok, "%d: %s", n, forked.text.c_str());
    const WorldResult threads = thread_world(n, exchange_blobs);
    cr_assert(threads.ok, "%d: %s", n, threads.text.c_str());
  }
}

Test(fork_world, a_rank_that_fails_ends_all, .timeout = 60) {
  const WorldResult result = fork_world(3, [](Bootstrap& boot) {
    RLX_EXPECT(boot.facts().rank != 1, "as planned");
    for (;;) pause();
  });
  cr_assert(not(result.ok));
  cr_assert(result.text.find("rank 1 exited with 1") != std::string::npos, "%s",
            result.text.c_str());
}

Test(fork_world, the_time_limit_ends_all, .timeout = 60) {
  const WorldResult result = fork_world(2,
                                        [](Bootstrap&) {
                                          for (;;) pause();
                                        },
                                        {.timeout_ms = 100});
  cr_assert(not(result.ok));
  cr_assert(result.text.find("did not end") != std::string::npos);
}

Test(fork_world, an_expected_death_is_reported_to_the_others, .timeout = 60) {
  const WorldResult result = fork_world(3,
                                        [](Bootstrap& boot) {
                                          std::atomic<int> gone{-2};
                                          boot.watch([&](int rank, const std::string&) {
                                            gone = rank;
                                            gone.notify_all();
                                          });
                                          RLX_EXPECT_OK(boot.fence(Deadline::after_ms(10000)));
                                          if (boot.facts().rank == 2) raise(SIGKILL);
                                          gone.wait(-2);
                                          RLX_EXPECT(gone == 2, "{}", gone.load());
                                        },
                                        {.expect_dead = {2}});
  cr_assert(result.ok, "%s", result.text.c_str());
}
