// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/host.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <vector>

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

namespace {

// "max 100000" or "150000 100000": microseconds in each period.
double read_cpu_max(const std::string& path) {
  std::ifstream file(path);
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0)
    return std::numeric_limits<double>::infinity();
  return std::stod(quota) / period;
}

}  // namespace

double cpu_quota() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  double least = std::numeric_limits<double>::infinity();
  while (std::getline(file, line)) {
    if (!line.starts_with("0::/")) continue;
    // The limit of every group above us holds too.
    for (std::string group = line.substr(3); group.size() > 1; group.resize(group.rfind('/')))
      least = std::min(least, read_cpu_max("/sys/fs/cgroup" + group + "/cpu.max"));
  }
  return std::min(least, read_cpu_max("/sys/fs/cgroup/cpu.max"));
}

}  // namespace rlx
