// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/head.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "base/words.h"
#include "launcher/mpir.h"

namespace rlx::launcher {
namespace {

constexpr double kReportTime = 1, kStackTime = 20;  // for nodes to say what their ranks do
constexpr double kGatherTime = 1;  // for other nodes that cannot start the job either
constexpr double kPatience =
    1;  // for a reader of our output that does not read, once we were told to end

// " with rank 1" or " with ranks 1,2" of the job on the command line, or nothing.
std::string with_ranks(const std::vector<RankId>& ids) {
  std::vector<std::uint32_t> ranks;
  for (const auto& id : ids)
    if (id.job == 0) ranks.push_back(id.rank);
  if (ranks.empty()) return "";
  return fmt::format(" with rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ","));
}

// Shells say so of a child.
bool ended_by_sigterm(int wait_status) {
  return (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGTERM) ||
         (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kExitSignalBase + SIGTERM);
}

}  // namespace

Head::Head(Loop& loop, const HeadSetup& setup)
    : loop_(loop),
      line_(*setup.line),
      own_environment_(*setup.own_environment),
      plan_(*setup.plan),
      local_(setup.local),
      place_(setup.place),
      output_(loop, *this),
      signal_fd_(signalfd(-1, &setup.signals, SFD_CLOEXEC | SFD_NONBLOCK)) {
  signal_watch_ = loop_.on_readable(signal_fd_.get(), [this] { on_signal(); });
  if (line_.output.json) output_.show_records();
  const double used_s = now_ns() * 1e-9 - line_.began_s;
  if (line_.end.timeout_s > 0)
    time_limit_ =
        loop_.after(std::max(line_.end.timeout_s - used_s, 0.0), [this] { time_is_up(); });
}
Head::~Head() = default;

void Head::note(const std::string& text) {
  if (line_.verbosity > 0) output_.say(text);
}
void Head::detail(const std::string& text) {
  if (line_.verbosity > 1) error(text);
}
void Head::error(const std::string& text) { output_.say(text); }

void Head::run(JobSpec job) {
  job_id_ = job.id;
  job.stacks = line_.end.stacks;
  job.stop_in_init = line_.stop_in_init;
  output_spec_ = job.output;
  const int stdin_to = line_.stdin_to.value_or(0);
  if (line_.pty_rank) {
    job.stdin_ranks = {*line_.pty_rank};
    job.pty = PtySpec{*line_.pty_rank, window_size()};
    output_.pass_through({job.number, *line_.pty_rank});
  } else if (stdin_to >= 0) {
    job.stdin_ranks = {static_cast<std::uint32_t>(stdin_to)};
    // A rank here may read our input itself, and then takes no more of it than it wants; but a
    // terminal does not listen to another session.
    job.inherit_stdin = job.ranks[job.stdin_ranks[0]].node == local_ && !isatty(STDIN_FILENO);
  } else if (stdin_to == kStdinAll) {
    job.stdin_ranks.resize(job.ranks.size());
    std::iota(job.stdin_ranks.begin(), job.stdin_ranks.end(), 0u);
  }
  start(job);
  if (!ending_) start_input(job);
}

// Says what every rank is doing, or who has not answered yet, before all are ended.
void Head::time_is_up() {
  if (ending_) return end(line_.end.kill_grace_s);
  const std::string text =
      outcome_.timed_out(line_.end.timeout_s, line_.end.timeout_exit_code.value_or(kExitTimeout));
  time_limit_ = loop_.after(line_.end.stacks ? kStackTime : kReportTime,
                            [this] { failed("", line_.end.kill_grace_s); });
  error(text);
  tell_debuggers_of_abort(text);
  reports_left_ = std::max<std::size_t>(plan_.hosts.size(), 1);
  node_->report();
}

void Head::give_up(const std::vector<std::string>& why, int exit_code) {
  for (const auto& line : why) error(line);
  if (exit_code != 0) outcome_.other("", exit_code);
  end(0);
}

void Head::start(const JobSpec& spec) {
  Job& job = jobs_[spec.number];
  job.name = spec.name;
  job.nodes = spec.nodes;
  for (const auto& rank : spec.ranks) {
    job.node_of.push_back(rank.node);
    job.app_of.push_back(rank.app);
  }
  for (const auto& app : spec.apps) job.programs.push_back(app.argv[0]);
  job.ranks.resize(spec.ranks.size());
  node_->start(spec);
}

void Head::start_input(const JobSpec& job) {
  if (job.stdin_ranks.empty() || job.inherit_stdin) return;
  if (job.pty) terminal_.lend();
  std::vector<RankId> readers;
  for (const auto rank : job.stdin_ranks) readers.push_back({job.number, rank});
  input_ = std::make_unique<StdinSource>(
      loop_, readers,
      [this](RankId rank, std::string bytes) { node_->input(rank, std::move(bytes)); },
      [this](RankId rank) { node_->input_ended(rank); });
}

RankName Head::name_of(RankId id) const {
  const auto job = jobs_.find(id.job);
  if (job == jobs_.end() || id.rank >= job->second.ranks.size()) return {id, -1, "?"};
  return {id, job->second.ranks[id.rank].pid, job->second.nodes[job->second.node_of[id.rank]]};
}

void Head::started(RankId id, pid_t pid, const std::string& text) {
  Job& job = jobs_.at(id.job);
  job.ranks[id.rank].pid = pid;
  job.ranks[id.rank].started = true;
  ++job.n_started;
  if (!text.empty()) note(text);
  detail(fmt::format("started {}", text_of(name_of(id))));
  show_progress(job);
  if (job.refused) return node_->end_ranks({id}, 0);
  if (job.n_started == job.ranks.size()) {
    show_table();
    if (is_being_debugged()) let_go();
  }
  if (job.spawn_request != 0 && job.n_started == job.ranks.size())
    node_->spawn_answer(std::exchange(job.spawn_request, 0), job.name);
}

void Head::not_started(std::uint32_t node, std::uint32_t number, const StartProblem& problem) {
  Job& job = jobs_.at(number);
  std::vector<RankId> already;
  for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    Rank& one = job.ranks[rank];
    if (one.started && !one.ended) already.push_back({number, rank});
    if (one.started || one.ended || job.node_of[rank] != node) continue;
    one.ended = true;
    ++job.n_ended;
  }
  if (job.spawn_request == 0 && !job.refused) {
    if (outcome_.not_started(job.nodes[node], problem))  // others may say the same
      gather_ = loop_.after(kGatherTime, [this] { tell_start_problems(); });
    return end(line_.end.kill_grace_s);
  }
  if (job.spawn_request != 0)
    refuse_spawn(
        std::exchange(job.spawn_request, 0),
        {Code::kInvalid, fmt::format("not started on {}: {}", job.nodes[node], problem.text)});
  job.refused = true;
  node_->end_ranks(already, 0);
}

void Head::tell_start_problems() {
  for (const auto& line : outcome_.take_start_problems()) {
    error(line);
    tell_debuggers_of_abort(line);
  }
}

void Head::lost(std::uint32_t node, const std::vector<std::uint32_t>& others,
                const std::string& cause) {
  std::vector<std::uint32_t> gone = others;
  gone.push_back(node);
  std::vector<RankId> victims;
  for (auto& [number, job] : jobs_)
    for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
      if (std::find(gone.begin(), gone.end(), job.node_of[rank]) == gone.end()) continue;
      if (std::exchange(job.ranks[rank].ended, true)) continue;
      ++job.n_ended;
      victims.push_back({number, rank});
      take_back_terminal({number, rank});
    }
  if (ending_) return;
  const std::string text = outcome_.host_lost(fmt::format(
      "lost host {}{}{}: {}", plan_.hosts[node].name, with_ranks(victims),
      others.empty() ? ""
                     : fmt::format(" ({} reached through it)", counted(others.size(), "more host")),
      cause));
  if (line_.end.on_failure != OnFailure::kContinue) return failed(text, line_.end.kill_grace_s);
  if (!text.empty()) error(text);
  finish_when_all_ended();
}

void Head::output(RankId rank, Stream stream, Text text) {
  output_.write(rank, stream, std::move(text));
}
void Head::output_ended(RankId rank, Stream stream) { output_.ended(rank, stream); }
void Head::written(RankId rank, Stream stream, std::size_t n_bytes) {
  node_->output_taken(rank, stream, n_bytes);
}

// The job goes on: what it computes may be worth more than what it says.
void Head::output_lost(RankId id, const std::string& problem) {
  outcome_.output_lost();
  error(fmt::format("output of {} is lost: {}", text_of(name_of(id)), problem));
}

void Head::output_failed(Stream stream, int error_number) {
  if (stream == Stream::kStderr) return outcome_.output_lost();  // there is nowhere left to say so
  if (error_number == EPIPE || error_number == EIO)
    outcome_.output_closed();
  else
    error(outcome_.other(fmt::format("cannot write standard output: {}", strerror(error_number))));
  end(line_.end.kill_grace_s);
}

std::string Head::prefix_of(RankId id, Stream stream) const {
  std::string prefix = line_.output.timestamp ? timestamp_now() : "";
  if (line_.output.tag == Tag::kNone) return prefix;
  const RankName name = name_of(id);
  const std::size_t width = std::to_string(jobs_.at(0).ranks.size() - 1).size();
  std::string who = fmt::format("{:>{}}", id.rank, width);
  if (id.job != 0) who = fmt::format("{}.{}", id.job, who);
  if (line_.output.tag != Tag::kRank) who += "@" + name.host;
  if (line_.output.tag == Tag::kFull) who += fmt::format(":{}", name.pid);
  return prefix + fmt::format("[{}]{} ", who, stream == Stream::kStderr ? "!" : "");
}

void Head::exited(RankId id, int wait_status, const pmix::RankState& state) {
  Job& job = jobs_.at(id.job);
  if (std::exchange(job.ranks[id.rank].ended, true)) return;
  ++job.n_ended;
  take_back_terminal(id);
  if (ended_by_sigterm(wait_status)) expect_to_be_told();
  after_what_we_are_told([this, id, wait_status, state] { judge_end_of(id, wait_status, state); });
}

void Head::judge_end_of(RankId id, int wait_status, const pmix::RankState& state) {
  Job& job = jobs_.at(id.job);
  const bool expected = ending_ || job.ranks[id.rank].to_end;
  const std::string text = expected ? "" : outcome_.rank_exited(name_of(id), wait_status, state);
  if (!text.empty() && line_.end.on_failure == OnFailure::kKill)
    return failed(text, line_.end.kill_grace_s);
  if (!text.empty()) error(text);
  if (!expected && wait_status == 0 && !state.connected && !job.stayed_out) {
    job.stayed_out = id.rank;
    judge_who_stayed_out(id.job);
  }
  finish_when_all_ended();
}

void Head::joined(RankId id) {
  if (std::exchange(jobs_.at(id.job).joined, true)) return;
  judge_who_stayed_out(id.job);
}

// Where one rank calls Init all must, for it waits for them. So nobody has come further than that,
// and there is nothing that could go on without the rank.
void Head::judge_who_stayed_out(std::uint32_t number) {
  const Job& job = jobs_.at(number);
  if (ending_ || !job.joined || !job.stayed_out) return;
  const std::string text = outcome_.rank_stayed_out(name_of({number, *job.stayed_out}));
  failed(text, line_.end.kill_grace_s);
}

void Head::finish_when_all_ended() {
  if (!all_ended() || ending_ || expect_) return;
  ending_ = true;
  node_->finish();
}

// If it was this rank's: what is typed from now on is for us, and for the shell after us.
void Head::take_back_terminal(RankId id) {
  if (!has_terminal(id)) return;
  terminal_.take_back();
  input_taken(id, 0, true);
}

bool Head::all_ended() const {
  return std::all_of(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    return entry.second.n_ended == entry.second.ranks.size();
  });
}

void Head::aborted(RankId by, int status, const std::string& message,
                   const std::vector<RankId>& victims) {
  after_what_we_are_told(
      [this, by, status, message, victims] { judge_abort(by, status, message, victims); });
}

void Head::judge_abort(RankId by, int status, const std::string& message,
                       const std::vector<RankId>& victims) {
  if (ending_) return;  // which leaves the others their time
  const std::string text = outcome_.rank_aborted(name_of(by), status, message);
  if (victims.empty() || victims.size() == jobs_.at(by.job).ranks.size())
    return failed(text, line_.end.kill_grace_s);
  if (!text.empty()) error(text);
  node_->end_ranks(victims, line_.end.kill_grace_s);
}

void Head::control_wanted(RankId by, const pmix::Control& control,
                          const std::vector<RankId>& targets) {
  if (control.kind == pmix::Control::Kind::kSignal)
    return node_->signal_ranks(targets, control.signal_number);
  const bool kill = control.kind == pmix::Control::Kind::kKill;
  std::vector<RankId> victims;
  for (const auto& id : targets) {
    const auto job = jobs_.find(id.job);
    if (job == jobs_.end() || id.rank >= job->second.ranks.size()) continue;
    Rank& rank = job->second.ranks[id.rank];
    if (rank.ended) continue;
    rank.to_end = true;
    victims.push_back(id);
  }
  if (victims.empty()) return;
  note(fmt::format(
      "{} {} {}", text_of(name_of(by)), kill ? "kills" : "ends",
      victims.size() == 1 ? text_of(name_of(victims[0])) : counted(victims.size(), "rank")));
  if (kill) return node_->signal_ranks(victims, SIGKILL);
  node_->end_ranks(victims, line_.end.term_grace_s);
}

void Head::input_taken(RankId rank, std::size_t n_bytes, bool closed) {
  if (input_) input_->taken(rank, n_bytes, closed);
}

void Head::reported(const std::vector<std::string>& lines) {
  for (const auto& line : lines) error(line);
  if (reports_left_ > 0 && --reports_left_ == 0) end(line_.end.kill_grace_s);
}

void Head::failed(const std::string& text, double grace_s) {
  if (!text.empty()) {
    error(text);
    tell_debuggers_of_abort(text);
  }
  end(grace_s);
}

void Head::end(double grace_s, int ranks_get) {
  ending_ = true;
  terminal_.take_back();  // a rank may not end by itself, and Ctrl-C is for us again
  node_->end(grace_s, ranks_get);
}

void Head::quiet() {
  tell_start_problems();  // no node has more to say
  quiet_ = true;
  leave_when_written();
}

void Head::output_idle() {
  if (quiet_) leave_when_written();
}

void Head::leave_when_written() {
  if (output_.is_idle()) return loop_.stop();
  if (outcome_.signal_number() != 0 && !patience_)
    patience_ = loop_.after(kPatience, [this] { loop_.stop(); });
}

}  // namespace rlx::launcher
