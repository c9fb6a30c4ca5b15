// SPDX-License-Identifier: MIT OR Apache-2.0
// How ranks end: by themselves, or by SIGTERM (or what --int-signal says) and then SIGKILL,
// together with all they have started.
//
// This process adopts every orphan below it, so waitpid knows when nothing is left: the job is
// quiet when no child remains and all pipes are closed.
#include <fmt/format.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "launcher/local_node.h"
#include "launcher/outcome.h"

namespace rlx::launcher {
namespace {

constexpr double kDrainTime = 1;  // for a pipe that is held open by nobody we know
constexpr double kLeftoverGrace = 0.2;
constexpr double kKillRound = 0.05;  // a process may be born while we read /proc

// The group of a rank's session; its own children stay in it unless they ask not to.
void signal_rank(pid_t pid, int signal_number) {
  kill(-pid, signal_number);
  if (signal_number == SIGTERM || signal_number == SIGINT)
    kill(-pid, SIGCONT);  // a stopped process would not see it
}

std::string state_of(pid_t pid) {
  std::string field, state;
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::getline(file, field);
  const auto end = field.rfind(") ");
  switch (end == std::string::npos ? '?' : field[end + 2]) {
    case 'R':
      return "computing";
    case 'S':
      return "sleeping";
    case 'D':
      return "waiting for a device";
    case 'T':
    case 't':
      return "stopped";
    default:
      return "gone";
  }
}

}  // namespace

void LocalNode::reap() {
  signalfd_siginfo info;
  while (read(child_signal_.get(), &info, sizeof info) > 0) {
  }
  server_->dispatch(*this);  // what a rank asked for before it ended comes first
  for (siginfo_t ended{}; waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) == 0;) {
    const pid_t pid = std::exchange(ended.si_pid, 0);
    if (pid == 0) break;
    if (setup_.helpers && setup_.helpers->reap(pid)) continue;
    int status = 0;
    waitpid(pid, &status, WNOHANG);
    for (auto& [number, job] : jobs_) {
      const auto rank = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const auto& entry) {
        return entry.second.pid == pid && entry.second.running;
      });
      if (rank == job.ranks.end()) continue;
      rank_exited(job, rank->first, status);
      break;
    }
  }
  check_quiet();
}

void LocalNode::rank_exited(Job& job, std::uint32_t rank, int wait_status) {
  Rank& ended = job.ranks[rank];
  ended.running = false;
  --job.running;
  for (auto* stream : {ended.out.get(), ended.err.get()})
    if (stream && stream->is_open()) stream->catch_up();  // its last words come before the news
  const pmix::ProcId proc{job.spec.name, rank};
  const pmix::RankState state = server_->state(proc);
  const bool signaled = WIFSIGNALED(wait_status);
  // Before other ranks hear of it, which then may end because of it.
  head_.exited({job.spec.number, rank}, wait_status, state);
  server_->rank_ended(proc, {signaled ? pmix::Ending::Kind::kSignaled : pmix::Ending::Kind::kExited,
                             signaled ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status)});
  used_pmix_ |= state.connected;
  if (job.running == 0 && (used_pmix_ || any_running())) server_->deregister_job(job.spec.name);
}

bool LocalNode::any_running() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const auto& entry) { return entry.second.running > 0; });
}

void LocalNode::signal(int signal_number) {
  for (auto& [number, job] : jobs_)
    for (auto& [rank, process] : job.ranks)
      if (process.running) signal_rank(process.pid, signal_number);
}

void LocalNode::signal_ranks(const std::vector<RankId>& ranks, int signal_number) {
  for (const auto& id : ranks)
    if (const Rank* rank = find(id); rank && rank->running) signal_rank(rank->pid, signal_number);
}

// Who is told the same again may take it for impatience, and not finish what the grace is for.
void LocalNode::end(double grace_s, int signal_number) {
  if (std::exchange(ended_by_, signal_number) != signal_number) signal(signal_number);
  kill_within(grace_s);
  ending_ = true;
  check_quiet();
}

void LocalNode::finish() {
  ending_ = true;
  check_quiet();
}

// A later, longer grace does not take back a shorter one.
void LocalNode::kill_within(double grace_s) {
  const Deadline deadline = Deadline::after_ms(static_cast<std::int64_t>(grace_s * 1000));
  if (deadline.left_ns() >= kill_at_.left_ns()) return;
  kill_at_ = deadline;
  kill_timer_ = loop_.after(grace_s, [this] { kill_all(); });
}

// Children of this process that this node must leave alone.
std::vector<pid_t> LocalNode::others() const {
  auto pids = setup_.helpers ? setup_.helpers->pids() : std::vector<pid_t>();
  if (setup_.guard) pids.push_back(setup_.guard->pid());
  return pids;
}

bool LocalNode::has_children() const {
  if (setup_.helpers && !setup_.helpers->empty()) return !descendants(others()).empty();
  siginfo_t info{};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void LocalNode::signal_descendants(int signal_number) {
  for (const pid_t pid : descendants(others())) kill(pid, signal_number);
}

void LocalNode::kill_all() {
  signal_descendants(SIGKILL);
  kill_timer_ = loop_.after(kKillRound, [this] { kill_all(); });
}

void LocalNode::end_ranks(const std::vector<RankId>& ranks, double grace_s) {
  std::vector<pid_t> pids;
  for (const auto& id : ranks)
    if (const Rank* rank = find(id); rank && rank->running) {
      signal_rank(rank->pid, SIGTERM);
      rank_timers_.push_back(loop_.after(grace_s, [this, id] {
        if (const Rank* late = find(id); late && late->running) signal_rank(late->pid, SIGKILL);
      }));
    }
}

void LocalNode::check_quiet() {
  if (!ending_ || quiet_ || any_running()) return;
  if (has_children()) {  // what ranks left in the background
    if (!std::exchange(told_leftovers_, true)) {
      signal_descendants(SIGTERM);
      kill_within(kLeftoverGrace);
    }
    return;
  }
  kill_timer_.reset();
  for (auto& [number, job] : jobs_)
    for (auto& [rank, process] : job.ranks)
      for (const auto* stream : {process.out.get(), process.err.get()})
        if (stream && stream->is_open()) {
          if (!drain_timer_) drain_timer_ = loop_.after(kDrainTime, [this] { drain(); });
          return;
        }
  for (const auto& [number, job] : jobs_)  // the others were when their last rank had ended
    if (job.ranks.empty() && used_pmix_) server_->deregister_job(job.spec.name);
  quiet_ = true;
  drain_timer_.reset();
  head_.quiet();
}

void LocalNode::drain() {
  drain_timer_.reset();
  for (auto& [number, job] : jobs_)
    for (auto& [rank, process] : job.ranks)
      for (auto* stream : {process.out.get(), process.err.get()})
        if (stream && stream->is_open()) stream->close_now();
  check_quiet();
}

std::string LocalNode::state_line(const Job& job, std::uint32_t rank) const {
  const RankName name{{job.spec.number, rank}, job.ranks.at(rank).pid, setup_.hostname};
  const pmix::ProcId proc{job.spec.name, rank};
  const pmix::RankState state = server_->state(proc);
  return fmt::format("{}: {}{}", text_of(name), state_of(name.pid),
                     job.ranks.at(rank).held        ? ", waits in init to be let go"
                     : server_->is_in_fence(proc)   ? ", in a fence with the ranks of other hosts"
                     : server_->is_in_barrier(proc) ? ", in a barrier"
                     : state.finalized              ? ", has finalized"
                     : state.connected              ? ", initialised"
                                                    : ", has not called init");
}

void LocalNode::report() {
  std::vector<std::pair<pid_t, std::string>> states;
  bool stacks = false;
  for (auto& [number, job] : jobs_)
    for (auto& [rank, process] : job.ranks) {
      if (!process.running) continue;
      states.emplace_back(process.pid, state_line(job, rank));
      stacks |= job.spec.stacks;
    }
  const auto tell = [this, states](const Stacks::Lines& frames) {
    std::vector<std::string> lines;
    for (const auto& [pid, state] : states) {
      lines.push_back(state);
      if (const auto found = frames.find(pid); found != frames.end())
        for (const auto& frame : found->second) lines.push_back("  " + frame);
    }
    head_.reported(lines);
  };
  if (!stacks || !setup_.helpers) return tell({});
  std::vector<pid_t> pids;
  for (const auto& [pid, state] : states) pids.push_back(pid);
  stacks_ = std::make_unique<Stacks>(*setup_.helpers);
  stacks_->read(std::move(pids), tell);
}

}  // namespace rlx::launcher
