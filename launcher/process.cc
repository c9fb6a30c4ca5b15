// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rlx::launcher {
namespace {

enum class Step { kBind, kDirectory, kTerminal, kExec };

// What a child tells its parent, in one write; nothing when all went well.
struct Report {
  pid_t pid;
  Step step;
  int error;
};

struct Attempt {
  const ProcessSpec* spec;
  char* const* argv;
  char* const* environment;
  const cpu_set_t* mask;
  std::size_t mask_size;
  pid_t parent;
  int report_fd;
};

void tell(const Attempt& attempt, Step step) {
  const Report report{getpid(), step, errno};
  if (write(attempt.report_fd, &report, sizeof report) != sizeof report) _exit(127);
}

[[noreturn]] void give_up(const Attempt& attempt, Step step) {
  tell(attempt, step);
  _exit(127);
}

// Between fork and exec: system calls only, nothing that allocates or locks, for other threads may
// have held locks.
[[noreturn]] void become_program(const Attempt& attempt) {
  const ProcessSpec& spec = *attempt.spec;
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != attempt.parent) _exit(127);  // it died before the line above
  if (attempt.mask && sched_setaffinity(0, attempt.mask_size, attempt.mask) != 0)
    tell(attempt, Step::kBind);
  if (!spec.wdir.empty() && chdir(spec.wdir.c_str()) != 0) give_up(attempt, Step::kDirectory);
  const int from[3] = {spec.stdin_fd, spec.stdout_fd, spec.stderr_fd};
  for (int to = 0; to < 3; ++to)
    if (from[to] != to) dup2(from[to], to);
  if (spec.owns_terminal && ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0)
    give_up(attempt, Step::kTerminal);
  if (spec.kept_fd >= 0) fcntl(spec.kept_fd, F_SETFD, 0);
  if (!spec.ignores_sigpipe) signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &spec.signal_mask, nullptr);
  execve(spec.file.c_str(), attempt.argv, attempt.environment);
  give_up(attempt, Step::kExec);
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const auto& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

StartFailure describe(const std::string& file, const std::string& wdir, Step step, int error) {
  if (step == Step::kDirectory)
    return {1, fmt::format("cannot enter the directory {}: {}", wdir, strerror(error))};
  if (step == Step::kTerminal)
    return {1, fmt::format("cannot give {} a terminal: {}", file, strerror(error))};
  const int code = error == ENOENT ? 127 : 126;
  if (error == ENOEXEC)
    return {code,
            fmt::format("{} is neither a program for this machine nor a script with #! in its "
                        "first line",
                        file)};
  if (error == ENOENT)
    return {code, fmt::format(
                      "{} needs an interpreter or loader that is not here (see its first line, or "
                      "ldd)",
                      file)};
  if (error == E2BIG)
    return {code, fmt::format("arguments and environment of {} are too large", file)};
  return {code, fmt::format("cannot run {}: {}", file, strerror(error))};
}

// 0 when `file` can be run, else why not, as exit code.
Program inspect(const std::string& command, const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return {file, missing ? 127 : 126, fmt::format("{}: {}", command, strerror(errno))};
  }
  if (S_ISDIR(info.st_mode)) return {file, 126, fmt::format("{} is a directory", command)};
  if (access(file.c_str(), X_OK) != 0)
    return {file, 126, fmt::format("{} is not executable (chmod +x?)", command)};
  return {file, 0, ""};
}

std::string beside(const std::string& directory, const std::string& file) {
  return directory.empty() || file.starts_with('/') ? file : directory + "/" + file;
}

}  // namespace

Program find_program(const std::string& command, const std::string& wdir, std::string_view path) {
  if (command.find('/') != std::string::npos) {
    Program program = inspect(command, beside(wdir, command));
    if (program.exit_code == 127 && !wdir.empty() && !command.starts_with('/'))
      program.problem +=
          fmt::format(" in {}{}", wdir,
                      access(command.c_str(), X_OK) == 0
                          ? " (it exists where rlxrun was started: give the full path)"
                          : "");
    return program;
  }
  Program best{command, 127, fmt::format("{}: command not found in PATH", command)};
  while (!path.empty()) {
    const auto colon = std::min(path.find(':'), path.size());
    const std::string directory(path.substr(0, colon));
    Program program =
        inspect(command, beside(wdir, directory.empty() ? command : directory + "/" + command));
    if (program.exit_code == 0) return program;
    if (program.exit_code == 126 && best.exit_code == 127) best = std::move(program);
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  struct stat info {};
  if (best.exit_code == 127 && stat(beside(wdir, command).c_str(), &info) == 0)
    best.problem += fmt::format(" (there is ./{}: the ./ is needed)", command);
  return best;
}

Status make_pipe(Fd& reading, Fd& writing) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail_errno("cannot make a pipe (ulimit -n?)");
  reading = Fd(ends[0]);
  writing = Fd(ends[1]);
  return {};
}

StartBatch::StartBatch() {
  [[maybe_unused]] const auto made = make_pipe(reports_, report_);  // else start() fails
}

pid_t StartBatch::start(const ProcessSpec& spec) {
  if (!report_) return errno = EMFILE, -1;
  const auto argv = pointers(*spec.argv);
  const auto environment = pointers(*spec.environment);
  Attempt attempt{&spec, argv.data(), environment.data(), nullptr, 0, getpid(), report_.get()};
  std::vector<unsigned long> mask;
  if (spec.cpus && !spec.cpus->empty()) {
    constexpr std::size_t kBits = 8 * sizeof(unsigned long);
    for (const unsigned cpu : spec.cpus->cpus()) {
      if (mask.size() <= cpu / kBits) mask.resize(cpu / kBits + 1);
      mask[cpu / kBits] |= 1ul << (cpu % kBits);
    }
    attempt.mask = reinterpret_cast<const cpu_set_t*>(mask.data());
    attempt.mask_size = mask.size() * sizeof(unsigned long);
  }
  const pid_t pid = _Fork();
  if (pid == 0) become_program(attempt);
  if (pid > 0) children_.push_back({pid, spec.file, spec.wdir});
  return pid;
}

std::vector<StartBatch::Trouble> StartBatch::wait() {
  report_.reset();  // exec closes the children's: the end of the pipe is the end of the wait
  std::vector<Trouble> troubles;
  Report report;
  while (true) {
    const ssize_t n = read(reports_.get(), &report, sizeof report);
    if (n < 0 && errno == EINTR) continue;
    if (n != sizeof report) return troubles;
    const auto child = std::find_if(children_.begin(), children_.end(),
                                    [&](const Child& other) { return other.pid == report.pid; });
    if (child == children_.end()) continue;
    Trouble trouble{report.pid, 0, {}};
    if (report.step == Step::kBind) {
      trouble.bind_error = report.error;
    } else {
      trouble.failure = describe(child->file, child->wdir, report.step, report.error);
      waitpid(report.pid, nullptr, 0);
    }
    troubles.push_back(std::move(trouble));
  }
}

}  // namespace rlx::launcher
