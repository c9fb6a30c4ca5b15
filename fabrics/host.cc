// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/host.h"

#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
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

CpuSet CpuSet::of_this_thread() {
  CpuSet set;
  CPU_ZERO(&set.bits);
  // Fails on machines with more cores than cpu_set_t holds: then all of them count as usable.
  if (sched_getaffinity(0, sizeof set.bits, &set.bits) != 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) CPU_SET(cpu, &set.bits);
  return set;
}

Result<CpuSet> CpuSet::parse(std::string_view text) {
  CpuSet set;
  CPU_ZERO(&set.bits);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == '-')
      read = std::from_chars(read.ptr + 1, end, last);
    if (read.ec != std::errc() || first < 0 || last < first || last >= CPU_SETSIZE)
      return fail(Code::kInvalid, fmt::format("'{}' is not a list of cores", text));
    for (int cpu = first; cpu <= last; ++cpu) CPU_SET(cpu, &set.bits);
    at = read.ptr;
    if (at != end && *at++ != ',')
      return fail(Code::kInvalid, fmt::format("'{}' is not a list of cores", text));
  }
  return set;
}

std::string CpuSet::text() const {
  std::string out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &bits)) continue;
    int last = cpu;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, &bits)) ++last;
    if (!out.empty()) out += ',';
    out += last == cpu ? fmt::format("{}", cpu) : fmt::format("{}-{}", cpu, last);
    cpu = last;
  }
  return out;
}

double ranks_per_core(const CpuSet& mine, std::span<const CpuSet> all) {
  double wanted = 0;
  for (const CpuSet& other : all) {
    cpu_set_t shared;
    CPU_AND(&shared, &mine.bits, &other.bits);
    if (other.count() > 0) wanted += static_cast<double>(CPU_COUNT(&shared)) / other.count();
  }
  return mine.count() > 0 ? wanted / mine.count() : wanted;
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
