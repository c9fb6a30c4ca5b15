// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/stacks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/words.h"

namespace rlx::launcher {
namespace {

constexpr std::size_t kAtOnce = 4;       // a debugger takes memory and a core for a second
constexpr std::size_t kMostLines = 200;  // of one process

std::string read_from_start(int fd) {
  std::string text;
  char buffer[16384];
  for (ssize_t n; (n = pread(fd, buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

// The frames and the heads of threads; all else is the debugger's talk, of which the last line says
// why there are none.
std::vector<std::string> frames_of(const std::string& output) {
  std::vector<std::string> frames;
  std::string last = "no stack: the debugger said nothing";
  for (const auto& line : words_of(output, "\n")) {
    last = "no stack: " + line;
    const bool wanted =
        line.starts_with('#') || line.starts_with("Thread ") || line.starts_with("TID ");
    if (wanted && frames.size() < kMostLines) frames.push_back(line);
  }
  if (frames.empty()) frames.push_back(last);
  return frames;
}

}  // namespace

void Stacks::read(std::vector<pid_t> pids, Done done) {
  waiting_ = std::move(pids);
  done_ = std::move(done);
  start_some();
}

void Stacks::start_some() {
  while (!waiting_.empty() && running_ < kAtOnce) {
    const pid_t pid = waiting_.back();
    waiting_.pop_back();
    start(pid);
  }
  if (running_ == 0 && waiting_.empty() && done_) std::exchange(done_, nullptr)(std::move(lines_));
}

void Stacks::start(pid_t pid) {
  const auto output = std::make_shared<Fd>(memfd_create("stacks", MFD_CLOEXEC));
  const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Environment environment = Environment::of_this_process();
  environment.unset("DEBUGINFOD_URLS");  // it would go and fetch symbols
  const int fds[3] = {nothing.get(), output->get(), output->get()};
  const std::string number = std::to_string(pid);
  const std::vector<std::string> tools[] = {
      {"gdb", "-nx", "-batch", "-p", number, "-ex", "thread apply all backtrace"},
      {"eu-stack", "-p", number}};
  for (const auto& tool : tools)
    if (helpers_.start(tool, environment, fds, [this, pid, output](int) {
          --running_;
          lines_[pid] = frames_of(read_from_start(output->get()));
          start_some();
        })) {
      ++running_;
      return;
    }
  lines_[pid] = {"no stack: neither gdb nor eu-stack is installed"};
}

}  // namespace rlx::launcher
