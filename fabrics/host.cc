// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/host.h"

#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

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

std::uint64_t machine_memory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word)
    if (word == "MemAvailable:") {
      std::uint64_t n_kib = 0;
      file >> n_kib;
      return n_kib << 10;
    }
  return std::numeric_limits<std::uint64_t>::max();
}

// What a version 2 group leaves; everything if it has no limit.
std::uint64_t group_memory(const std::string& folder) {
  std::uint64_t limit = 0, used = 0;
  if (!(std::ifstream(folder + "/memory.max") >> limit) ||
      !(std::ifstream(folder + "/memory.current") >> used))
    return std::numeric_limits<std::uint64_t>::max();
  return limit > used ? limit - used : 0;
}

}  // namespace

std::uint64_t available_memory() {
  std::uint64_t least = std::min(machine_memory(), group_memory("/sys/fs/cgroup"));
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::/")) continue;
    for (std::string group = line.substr(3); group.size() > 1; group.resize(group.rfind('/')))
      least = std::min(least, group_memory("/sys/fs/cgroup" + group));
  }
  return least;
}

namespace {

// From sysfs: the C library adds up all caches of a package where a virtual machine sees one.
std::optional<std::uint64_t> largest_cache() {
  std::uint64_t most = 0, n_kib = 0;
  for (int index = 0;; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    if (!(file >> n_kib)) break;
    most = std::max(most, n_kib << 10);
  }
  if (most == 0) return std::nullopt;
  return most;
}

}  // namespace

// Asked for each communicator.
std::optional<std::uint64_t> last_level_cache_bytes() {
  static const auto n_bytes = largest_cache();
  return n_bytes;
}

}  // namespace rlx
