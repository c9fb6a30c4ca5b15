// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/host.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

namespace rlx {

std::string host_identity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat space;
  if (!std::getline(file, boot) || stat("/proc/self/ns/pid", &space) != 0) return {};
  return fmt::format("{}/{}/{}", boot, space.st_ino, geteuid());
}

CpuSet cpus_of_this_thread() {
  cpu_set_t bits;
  CPU_ZERO(&bits);
  // Fails on machines with more cores than cpu_set_t holds: then all of them count as usable.
  const bool is_known = sched_getaffinity(0, sizeof bits, &bits) == 0;
  CpuSet set;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!is_known || CPU_ISSET(cpu, &bits)) set.add(cpu);
  }
  return set;
}

double ranks_per_core(const CpuSet& mine, std::span<const CpuSet> all) {
  double wanted = 0;
  for (const CpuSet& other : all) {
    if (other.empty()) continue;
    wanted += static_cast<double>((mine & other).count()) / static_cast<double>(other.count());
  }
  return mine.empty() ? wanted : wanted / static_cast<double>(mine.count());
}

}  // namespace rlx
