// SPDX-License-Identifier: MIT OR Apache-2.0
// Waiting: nobody burns a core, no ring is lost, deadlines hold.
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <thread>

#include "fabrics/host.h"
#include "fabrics/shm.h"
#include "test/fabrics/endpoint_bodies.h"
#include "test/fabrics/endpoint_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr WaitBudget kSleepAtOnce{.spins = 0, .yield_us = 0};

void check_world(const std::string& what, const WorldResult& result) {
  cr_assert(result.ok, "%s: %s", what.c_str(), result.text.c_str());
}

double cpu_ms() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
         (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
}

void wait_half_a_second(Endpoint& ep) {
  char byte = 0;
  if (ep.rank() == 0) {
    const timespec half{0, 500000000};
    nanosleep(&half, nullptr);
    for (int r = 1; r < ep.size(); ++r) send(ep, r, 1, &byte, 1);
    return;
  }
  const double before = cpu_ms();
  recv(ep, 0, 1, &byte, 1);
  // A rank that spins or yields all the time uses 500 divided by how many share the core.
  RLX_EXPECT(cpu_ms() - before < 25, "{} ms of CPU for a wait of 500 ms", cpu_ms() - before);
}

}  // namespace

Test(wait, no_ring_is_lost, .timeout = 200) {
  for (const char* fabrics : {"self,shm", "", "self,tcp"})
    for (int n : {2, 5})
      check_world(fmt::format("{} processes over '{}'", n, fabrics),
                  fork_world(n, with_endpoint(sleep_for_everything, fabrics)));
  check_world("threads", thread_world(3, with_endpoint(sleep_for_everything)));
}

Test(wait, a_waiting_rank_sleeps, .timeout = 100) {
  for (const char* fabrics : {"self,shm", "self,tcp"})
    check_world(fabrics, fork_world(4, with_endpoint(wait_half_a_second, fabrics)));
}

Test(wait, a_deadline_ends_it, .timeout = 100) {
  const auto body = [](Bootstrap& boot) {
    auto ep = open(boot);
    for (const WaitBudget budget : {kSleepAtOnce, WaitBudget{.spins = 1000, .yield_us = 1000000}}) {
      ep->set_wait_budget(budget);
      const Status idle = ep->until([] { return Turn::kIdle; }, Deadline::after_ms(30));
      RLX_EXPECT(!idle && idle.error().code == Code::kTimeout, "no timeout");
      const Status busy = ep->until([] { return Turn::kMoved; }, Deadline::after_ms(30));
      RLX_EXPECT(!busy && busy.error().code == Code::kTimeout, "no timeout while things move");
    }
  };
  check_world("one rank", fork_world(1, body));
}

Test(wait, another_thread_ends_a_sleep, .timeout = 100) {
  // Alone, and with sockets to watch.
  for (const char* fabrics : {"self", "self,shm", ""}) {
    const auto body = [&](Bootstrap& boot) {
      auto ep = open(boot, fabrics);
      ep->set_wait_budget(kSleepAtOnce);
      std::atomic<int> sleeps{0};
      std::thread reporter([&] {
        sleeps.wait(0);
        ep->report_failure(0, "as planned");
      });
      const Status status = ep->until(
          [&] {
            ep->poll();
            sleeps = 1;
            sleeps.notify_all();
            return ep->failed(0) != nullptr ? Turn::kDone : Turn::kIdle;
          },
          soon());
      reporter.join();
      RLX_EXPECT_OK(status);
      RLX_EXPECT(ep->n_late_wakes() == 0, "it slept on");
    };
    check_world(fabrics, fork_world(1, body));
  }
}

Test(host, counts_how_many_ranks_want_a_core) {
  const auto set = [](const char* text) { return CpuSet::parse(text).value(); };
  const CpuSet all = set("0-3"), first = set("0"), second = set("1"), half = set("0-1");
  cr_assert(eq(dbl, ranks_per_core(all, std::vector<CpuSet>(8, all)), 2.0));
  cr_assert(eq(dbl, ranks_per_core(all, std::vector<CpuSet>(4, all)), 1.0));
  cr_assert(eq(dbl, ranks_per_core(first, std::vector<CpuSet>{first, second}), 1.0));
  cr_assert(eq(dbl, ranks_per_core(half, std::vector<CpuSet>{half, half, first}), 1.5));
  cr_assert(ge(int, cpus_of_this_thread().count(), 1));
}
