// SPDX-License-Identifier: MIT OR Apache-2.0
// Reading /proc, for process.h. Processes come and go meanwhile: whatever cannot be read is gone.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "base/fd.h"
#include "launcher/process.h"

namespace rlx::launcher {
namespace {

std::string read_file(pid_t pid, const char* name) {
  const Fd fd(open(("/proc/" + std::to_string(pid) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[16384];
  for (ssize_t n; fd && (n = read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> pids;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc"), closedir);
  while (directory) {
    const dirent* entry = readdir(directory.get());
    if (!entry) break;
    if (const pid_t pid = atoi(entry->d_name); pid > 0) pids.push_back(pid);
  }
  return pids;
}

struct Stat {
  char state = 0;
  pid_t parent = 0, session = 0;
};

Stat stat_of(pid_t pid) {
  Stat stat;
  const std::string text = read_file(pid, "stat");
  const auto name_end = text.rfind(')');  // the name may hold anything
  pid_t group = 0;
  if (name_end == std::string::npos ||
      sscanf(text.c_str() + name_end + 1, " %c %d %d %d", &stat.state, &stat.parent, &group,
             &stat.session) != 4)
    return {};
  return stat;
}

}  // namespace

std::vector<pid_t> descendants(const std::vector<pid_t>& except) {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  for (const pid_t pid : all_processes()) {
    const Stat stat = stat_of(pid);
    if (stat.state != 0 && stat.state != 'Z') children[stat.parent].push_back(pid);
  }
  std::vector<pid_t> found{getpid()};
  for (std::size_t i = 0; i < found.size(); ++i)
    for (const pid_t pid : children[found[i]])
      if (std::find(except.begin(), except.end(), pid) == except.end()) found.push_back(pid);
  found.erase(found.begin());
  return found;
}

std::vector<pid_t> find_marked(const std::vector<std::string>& entries,
                               const std::vector<pid_t>& sessions) {
  std::vector<pid_t> found;
  for (const pid_t pid : all_processes()) {
    if (pid == getpid()) continue;
    const Stat stat = stat_of(pid);
    if (stat.state == 0 || stat.state == 'Z') continue;
    if (std::find(sessions.begin(), sessions.end(), stat.session) == sessions.end()) {
      const std::string environment = std::string(1, '\0') + read_file(pid, "environ");
      const bool marked = std::all_of(entries.begin(), entries.end(), [&](const auto& entry) {
        return environment.find('\0' + entry + '\0') != std::string::npos;
      });
      if (!marked || entries.empty()) continue;
    }
    found.push_back(pid);
  }
  return found;
}

}  // namespace rlx::launcher
