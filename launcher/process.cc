// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace rlx::launcher {
namespace {

enum class Step { kNone, kDirectory, kExec };

// Shared with the child, which runs in our memory until it execs.
struct Attempt {
  const ProcessSpec* spec;
  char* const* argv;
  char* const* environment;
  const cpu_set_t* mask;
  std::size_t mask_size;
  pid_t parent;
  volatile Step failed = Step::kNone;
  volatile int error = 0;
  volatile int bind_error = 0;
};

[[noreturn]] void give_up(Attempt& attempt, Step step) {
  attempt.failed = step;
  attempt.error = errno;
  _exit(127);
}

// Between vfork and exec: system calls only, nothing that allocates or locks.
[[noreturn]] void become_program(Attempt& attempt) {
  const ProcessSpec& spec = *attempt.spec;
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != attempt.parent) _exit(127);  // it died before the line above
  if (attempt.mask && sched_setaffinity(0, attempt.mask_size, attempt.mask) != 0)
    attempt.bind_error = errno;
  if (!spec.wdir.empty() && chdir(spec.wdir.c_str()) != 0) give_up(attempt, Step::kDirectory);
  const int from[3] = {spec.stdin_fd, spec.stdout_fd, spec.stderr_fd};
  for (int to = 0; to < 3; ++to)
    if (from[to] != to) dup2(from[to], to);
  if (spec.kept_fd >= 0) fcntl(spec.kept_fd, F_SETFD, 0);
  if (!spec.ignores_sigpipe) signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &spec.signal_mask, nullptr);
  execve(spec.file.c_str(), attempt.argv, attempt.environment);
  give_up(attempt, Step::kExec);
}

// Its own function, so that no variable of the caller lives in a register across vfork.
__attribute__((noinline)) pid_t vfork_into(Attempt& attempt) {
  const pid_t pid = vfork();
  if (pid == 0) become_program(attempt);
  return pid;
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const auto& string : strings) out.push_back(const_cast<char*>(string.c_str()));
  out.push_back(nullptr);
  return out;
}

StartFailure describe(const ProcessSpec& spec, Step step, int error) {
  if (step == Step::kDirectory)
    return {1, fmt::format("cannot enter the directory {}: {}", spec.wdir, strerror(error))};
  const int code = error == ENOENT ? 127 : 126;
  if (error == ENOEXEC)
    return {code,
            fmt::format("{} is neither a program for this machine nor a script with #! in its "
                        "first line",
                        spec.file)};
  if (error == ENOENT)
    return {code, fmt::format(
                      "{} needs an interpreter or loader that is not here (see its first line, or "
                      "ldd)",
                      spec.file)};
  if (error == E2BIG)
    return {code, fmt::format("arguments and environment of {} are too large", spec.file)};
  return {code, fmt::format("cannot run {}: {}", spec.file, strerror(error))};
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
    if (program.exit_code == 127 && !wdir.empty() && access(command.c_str(), X_OK) == 0)
      program.problem +=
          fmt::format(" in {} (it exists where rlxrun was started: give the full path)", wdir);
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

Started start_process(const ProcessSpec& spec) {
  const auto argv = pointers(*spec.argv);
  const auto environment = pointers(*spec.environment);
  Attempt attempt{&spec, argv.data(), environment.data(), nullptr, 0, getpid()};
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
  const pid_t pid = vfork_into(attempt);
  if (pid < 0)
    return {-1, 0, {1, fmt::format("cannot start a process: {} (ulimit -u?)", strerror(errno))}};
  if (attempt.failed == Step::kNone) return {pid, attempt.bind_error, {}};
  waitpid(pid, nullptr, 0);
  return {-1, 0, describe(spec, attempt.failed, attempt.error)};
}

}  // namespace rlx::launcher
