// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/support/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "base/clock.h"

namespace rlx::test {
namespace {

struct Pipe {
  int read_end = -1, write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
    read_end = ends[0], write_end = ends[1];
  }
  void close_read() { close_one(read_end); }
  void close_write() { close_one(write_end); }
  ~Pipe() { close_read(), close_write(); }

 private:
  static void close_one(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

[[noreturn]] void become(const std::vector<std::string>& argv, const CommandOptions& options,
                         int in, int out, int err) {
  setpgid(0, 0);
  dup2(in, 0), dup2(out, 1), dup2(err, 2);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(126);
  for (const auto& entry : options.environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos)
      unsetenv(entry.c_str());
    else
      setenv(entry.substr(0, equals).c_str(), entry.c_str() + equals + 1, 1);
  }
  default_signals();
  std::vector<char*> args;
  for (const auto& arg : argv) args.push_back(const_cast<char*>(arg.c_str()));
  args.push_back(nullptr);
  execvp(args[0], args.data());
  _exit(127);
}

// Feeds and drains the pipes until both outputs are closed, or the deadline.
bool converse(const std::string& input, Pipe& in, Pipe& out, Pipe& err, CommandResult& result,
              Deadline deadline) {
  std::size_t n_written = 0;
  std::array<char, 65536> buffer;
  if (input.empty()) in.close_write();
  while (out.read_end >= 0 || err.read_end >= 0) {
    pollfd fds[3] = {
        {out.read_end, POLLIN, 0}, {err.read_end, POLLIN, 0}, {in.write_end, POLLOUT, 0}};
    const int left_ms = static_cast<int>(deadline.left_ns() / 1000000) + 1;
    if (poll(fds, 3, left_ms) == 0 && deadline.passed()) return false;
    for (int i = 0; i < 2; ++i) {
      if (!(fds[i].revents & (POLLIN | POLLHUP | POLLERR))) continue;
      Pipe& from = i == 0 ? out : err;
      const auto n = ::read(from.read_end, buffer.data(), buffer.size());
      if (n > 0)
        (i == 0 ? result.out : result.err).append(buffer.data(), static_cast<std::size_t>(n));
      else
        from.close_read();
    }
    if (fds[2].revents) {
      const auto n = ::write(in.write_end, input.data() + n_written, input.size() - n_written);
      if (n > 0) n_written += static_cast<std::size_t>(n);
      if (n <= 0 || n_written == input.size()) in.close_write();
    }
  }
  return true;
}

}  // namespace

std::string CommandResult::text() const {
  return fmt::format("exit {}{}\n--- out\n{}--- err\n{}", code, timed_out ? " (timed out)" : "",
                     out.substr(0, 4000), err.substr(0, 4000));
}

CommandResult run(const std::vector<std::string>& argv, const CommandOptions& options) {
  Pipe in, out, err;
  fcntl(in.write_end, F_SETFL, O_NONBLOCK);
  const auto old_handler = signal(SIGPIPE, SIG_IGN);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid == 0) {
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    become(argv, options, options.input.empty() ? null : in.read_end, out.write_end, err.write_end);
  }
  setpgid(pid, pid);
  in.close_read(), out.close_write(), err.close_write();
  CommandResult result;
  const auto deadline = Deadline::after_ms(options.timeout_ms);
  result.timed_out = !converse(options.input, in, out, err, result, deadline);
  if (result.timed_out) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  kill(-pid, SIGKILL);
  signal(SIGPIPE, old_handler);
  result.code = result.timed_out    ? 124
                : WIFEXITED(status) ? WEXITSTATUS(status)
                                    : 128 + WTERMSIG(status);
  return result;
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::multiset<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::multiset<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

void default_signals() {
  for (const int ignored : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE}) signal(ignored, SIG_DFL);
}

std::string built(const std::string& program) {
  const char* build = getenv("RLX_BUILDDIR");
  return (build ? std::string(build) : std::filesystem::current_path().string()) + "/" + program;
}

TempDir::TempDir() {
  std::string pattern = (std::filesystem::temp_directory_path() / "rlx-test.XXXXXX").string();
  if (!mkdtemp(pattern.data())) throw std::runtime_error("mkdtemp failed");
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace rlx::test
