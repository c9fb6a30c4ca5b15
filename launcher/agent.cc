// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/agent.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/words.h"
#include "launcher/shell_words.h"

namespace rlx::launcher {

Result<std::vector<std::string>> agent_words(std::string_view launcher) {
  if (launcher == "ssh")
    return std::vector<std::string>{"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10",
                                    "-x",  "-T"};
  auto words = shell_words(launcher);
  if (!words)
    return fail(Code::kInvalid,
                fmt::format("--launch-agent '{}': {}", excerpt(launcher), words.error().text));
  return words;
}

bool is_safe_word(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return (c < 0x80 && std::isalnum(c)) || std::strchr("/._:@=,+-", c);
  });
}

std::string daemon_command(const TreeSettings& settings, std::string_view more) {
  std::string command = fmt::format("exec {} --daemon{}", settings.program, more);
  if (!settings.library_path.empty())
    command = fmt::format("LD_LIBRARY_PATH={} {}", settings.library_path, command);
  return fmt::format("exec /bin/sh -c '{}'", command);
}

std::vector<std::string> agent_command(const TreeSettings& settings, const TreeHost& host) {
  auto words = settings.agent;
  if (host.port > 0) {
    words.emplace_back("-p");
    words.push_back(std::to_string(host.port));
  }
  words.push_back(host.user.empty() ? host.name : host.user + "@" + host.name);
  words.push_back(daemon_command(settings));
  return words;
}

Status find_program_there(const std::string& prefix, TreeSettings& settings) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error);
  if (error && prefix.empty())
    return fail(Code::kSystem, "cannot find rlxrun's own path (/proc/self/exe); use --prefix");
  const fs::path program = prefix.empty() ? own : fs::path(prefix) / "bin" / "rlxrun";
  const fs::path root = program.parent_path().parent_path();
  settings.program = program;
  // Of an installation of its own; /usr/lib is searched anyway.
  if (program.parent_path().filename() == "bin" && root != "/usr" && root != "/")
    settings.library_path = root / "lib";
  for (const auto& path : {settings.program, settings.library_path})
    if (!is_safe_word(path))
      return fail(Code::kInvalid,
                  fmt::format("the path {} holds characters that shells on the way to other hosts "
                              "would change; use --prefix with another one",
                              path));
  return {};
}

std::string ending_text(std::string_view name, int wait_status) {
  if (WIFSIGNALED(wait_status))
    return fmt::format("{} was killed by signal {} ({})", name, WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)));
  return fmt::format("{} exited with code {}", name, WEXITSTATUS(wait_status));
}

ssize_t read_said(int fd, std::string& said) {
  constexpr std::size_t kMost = 64 << 10;
  char buffer[4096];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n > 0) said.append(buffer, static_cast<std::size_t>(n));
  if (said.size() > 2 * kMost) said.erase(0, said.size() - kMost);
  return n;
}

std::string last_words(std::string_view text) {
  constexpr std::size_t kMostLines = 3, kMostBytes = 500;
  auto lines = words_of(text, "\r\n");
  if (lines.size() > kMostLines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(kMostLines));
  std::string words = fmt::format("{}", fmt::join(lines, " / "));
  return words.size() > kMostBytes ? words.substr(0, kMostBytes) + "..." : words;
}

}  // namespace rlx::launcher
