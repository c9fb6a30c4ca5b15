// SPDX-License-Identifier: MIT OR Apache-2.0
// Half the round trip of one cache line between two cores. Virtual machines place their cores near
// or far from each other and change it by the minute, which moves every latency by up to four
// times: the figure belongs beside each benchmark.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>

#include "contrib/bench/perf_core.h"

namespace perf {

inline void pin_to_nth_allowed_cpu(int n) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed) && n-- == 0) {
      CPU_ZERO(&one);
      CPU_SET(cpu, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
}

inline double flag_latency_of_first_two_cpus() {
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  auto& flag = *new (memory) std::atomic<int>(0);
  constexpr int kBatch = 200, kSamples = 100, kRounds = kBatch * kSamples;
  const pid_t child = fork();
  if (child == 0) {
    pin_to_nth_allowed_cpu(1);
    for (int i = 0; i < kRounds; ++i) {
      while (flag.load(std::memory_order_acquire) != 2 * i + 1) {
      }
      flag.store(2 * i + 2, std::memory_order_release);
    }
    _exit(0);
  }
  if (child < 0) return 0;
  pin_to_nth_allowed_cpu(0);
  std::vector<double> samples;
  for (int i = 0; i < kRounds;) {
    const double t0 = now_us();
    for (int k = 0; k < kBatch; ++k, ++i) {
      flag.store(2 * i + 1, std::memory_order_release);
      while (flag.load(std::memory_order_acquire) != 2 * i + 2) {
      }
    }
    samples.push_back((now_us() - t0) / kBatch / 2);
  }
  waitpid(child, nullptr, 0);
  munmap(memory, 4096);
  return stats_of(std::move(samples), kBatch).median_us;
}

// Microseconds, the median of some milliseconds; 0 with fewer than two cores. Forks: call it before
// any library starts.
inline double flag_latency_us() {
  cpu_set_t mine, allowed;
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return 0;
  CPU_ZERO(&allowed);
  // A launcher may have bound us to one core: the system cuts "all" down to what it allows at most.
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &allowed);
  sched_setaffinity(0, sizeof allowed, &allowed);
  sched_getaffinity(0, sizeof allowed, &allowed);
  const double flag_us = CPU_COUNT(&allowed) < 2 ? 0 : flag_latency_of_first_two_cpus();
  sched_setaffinity(0, sizeof mine, &mine);
  return flag_us;
}

}  // namespace perf
