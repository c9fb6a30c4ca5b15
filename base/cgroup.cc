// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/cgroup.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <vector>

namespace rlx {
namespace {

// Where the hierarchy that governs CPU time is mounted, and this process's group in it.
struct Group {
  std::string mount, path;
  bool v2 = false;
};

bool has_word(const std::string& list, const std::string& word) {
  std::stringstream words(list);
  for (std::string w; std::getline(words, w, ',');)
    if (w == word) return true;
  return false;
}

// /proc/self/cgroup: "0::/path" for version 2, "4:cpu,cpuacct:/path" for version 1.
std::string group_path(const std::string& root, bool v2) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (v2 ? controllers.empty() : has_word(controllers, "cpu")) return line.substr(second + 1);
  }
  return {};
}

// /proc/self/mountinfo: "id parent dev root mountpoint options ... - type source superoptions".
std::vector<Group> groups(const std::string& root) {
  std::vector<Group> found;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const auto dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::stringstream head(line.substr(0, dash)), tail(line.substr(dash + 3));
    std::string id, parent, device, mount_root, mount, type, source, options;
    head >> id >> parent >> device >> mount_root >> mount;
    tail >> type >> source >> options;
    const bool v2 = type == "cgroup2";
    if (!v2 && !(type == "cgroup" && has_word(options, "cpu"))) continue;
    std::string path = group_path(root, v2);
    // In a container the mount shows only our own group: its root is our path, or unrelated to it.
    if (mount_root != "/")
      path = path.rfind(mount_root, 0) == 0 ? path.substr(mount_root.size()) : "";
    if (path == "/") path.clear();
    found.push_back({mount, path, v2});
  }
  return found;
}

// The limit of one directory, 0 when it has none.
double quota_of(const std::string& directory, bool v2) {
  double quota = 0, period = 0;
  if (v2) {
    if (!(std::ifstream(directory + "/cpu.max") >> quota >> period))
      return 0;  // "max 100000" fails
  } else if (!(std::ifstream(directory + "/cpu.cfs_quota_us") >> quota) ||
             !(std::ifstream(directory + "/cpu.cfs_period_us") >> period)) {
    return 0;
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

}  // namespace

double cgroup_cpu_quota(const std::string& root) {
  double least = 0;
  for (const auto& group : groups(root)) {
    std::string path = group.path;
    while (true) {
      const double quota = quota_of(root + group.mount + path, group.v2);
      if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
      const auto slash = path.rfind('/');
      if (path.empty() || slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return least;
}

}  // namespace rlx
