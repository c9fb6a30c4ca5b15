// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/outcome.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "launcher/hosts.h"

namespace rlx::launcher {

std::string text_of(const RankName& rank) {
  const std::string job = rank.id.job == 0 ? "" : fmt::format(" of spawned job {}", rank.id.job);
  return fmt::format("rank {}{} (pid {} on {})", rank.id.rank, job, rank.pid, rank.host);
}

std::string Outcome::fail_with(int exit_code, std::string line) {
  if (failed_) return {};
  failed_ = true;
  exit_code_ = exit_code;
  return line;
}

// A failure that may not come again.
std::string Outcome::may_pass(std::string line) {
  may_restart_ |= !line.empty();
  return line;
}

std::string Outcome::rank_exited(const RankName& rank, int wait_status,
                                 const pmix::RankState& state) {
  if (WIFSIGNALED(wait_status)) {
    const int number = WTERMSIG(wait_status);
    return may_pass(
        fail_with(kExitSignalBase + number,
                  fmt::format("{} was killed by signal {} ({}{})", text_of(rank), number,
                              strsignal(number), WCOREDUMP(wait_status) ? ", core dumped" : "")));
  }
  const int code = WEXITSTATUS(wait_status);
  if (code != 0)
    return may_pass(fail_with(code, fmt::format("{} exited with code {}", text_of(rank), code)));
  if (state.connected && !state.finalized)
    return may_pass(
        fail_with(1, fmt::format("{} exited with code 0, but without finalizing: others may wait "
                                 "for it",
                                 text_of(rank))));
  return {};
}

std::string Outcome::rank_stayed_out(const RankName& rank) {
  return fail_with(1, fmt::format("{} exited with code 0 and never joined the job (rlx_init, "
                                  "MPI_Init), which others did: they would wait for it",
                                  text_of(rank)));
}

std::string Outcome::rank_aborted(const RankName& rank, int status, const std::string& message) {
  const int code = (status & 0xff) == 0 ? 1 : status & 0xff;
  const bool told = !message.empty() && message != "N/A";  // Open MPI's way to say nothing
  return may_pass(fail_with(code, fmt::format("{} called abort with code {}{}{}", text_of(rank),
                                              status, told ? ": " : "", told ? message : "")));
}

bool Outcome::not_started(const std::string& host, const StartProblem& problem) {
  const bool first = !fail_with(problem.exit_code, problem.text).empty();
  if (!first && start_problems_.empty()) return false;
  auto same = std::find_if(start_problems_.begin(), start_problems_.end(),
                           [&](const StartProblems& other) { return other.text == problem.text; });
  if (same == start_problems_.end()) same = start_problems_.insert(same, {problem.text, {}});
  same->hosts.push_back(host);
  return first;
}

std::vector<std::string> Outcome::take_start_problems() {
  std::vector<std::string> lines;
  for (auto& problem : std::exchange(start_problems_, {})) {
    std::sort(problem.hosts.begin(), problem.hosts.end(), [](const auto& a, const auto& b) {
      return std::pair(a.size(), std::string_view(a)) < std::pair(b.size(), std::string_view(b));
    });
    lines.push_back(fmt::format("not started on {}: {}", some_of(problem.hosts), problem.text));
  }
  return lines;
}

std::string Outcome::timed_out(double seconds, int exit_code) {
  std::string line = fmt::format("the job did not end within {:g} s (--timeout)", seconds);
  fail_with(exit_code, line);
  return line;
}

std::string Outcome::interrupted(int signal_number) {
  if (!failed_) signal_number_ = signal_number;
  may_restart_ = false;
  return fail_with(kExitSignalBase + signal_number,
                   fmt::format("the job was told to end (SIG{})", sigabbrev_np(signal_number)));
}

std::string Outcome::host_lost(const std::string& problem) {
  return may_pass(fail_with(1, problem));
}

std::string Outcome::output_closed() { return fail_with(kExitSignalBase + SIGPIPE, {}); }

std::string Outcome::other(const std::string& problem, int exit_code) {
  return fail_with(exit_code, problem);
}

}  // namespace rlx::launcher
