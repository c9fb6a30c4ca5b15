// SPDX-License-Identifier: MIT OR Apache-2.0
// The head of a job: tells nodes what to start, hears what becomes of it, decides what the job ends
// with, and owns rlxrun's own input, output and signals.
#pragma once

#include <signal.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster.h"
#include "launcher/command_line.h"
#include "launcher/loop.h"
#include "launcher/node.h"
#include "launcher/outcome.h"
#include "launcher/output.h"
#include "launcher/plan.h"
#include "launcher/status.h"
#include "launcher/stdin_source.h"
#include "launcher/user_terminal.h"

namespace rlx::launcher {

struct HeadSetup {
  const CommandLine* line = nullptr;
  const Environment* own_environment = nullptr;
  const Plan* plan = nullptr;           // made by the time the job is started
  std::optional<std::uint32_t> local;   // the node that is this process
  std::function<void(JobSpec&)> place;  // finds an address and a port for MASTER_ADDR
  sigset_t signals;                     // blocked; the head reads them
};

class Head final : public ClusterEvents, private OutputOwner {
 public:
  Head(Loop& loop, const HeadSetup& setup);
  ~Head() override;
  void set_node(Node& node) { node_ = &node; }
  // The loop stops at the end of the job.
  void run(JobSpec job);
  // Nothing will be started; ends what is there. 0 is no failure.
  void give_up(const std::vector<std::string>& why, int exit_code);
  LauncherStatus status() const;
  const Outcome& outcome() const { return outcome_; }
  // Where the output goes, for OutputSpec.
  bool output_is_terminal() const { return output_.is_terminal(); }
  void note(const std::string& text) override;    // not with -q
  void detail(const std::string& text) override;  // only with -v
  void error(const std::string& text);            // always

 private:
  struct Rank {
    pid_t pid = -1;
    bool started = false, ended = false;
    bool held = false;    // in Init, by --stop-in-init
    bool to_end = false;  // another rank asked for its end, which is no failure then
  };
  struct Job {
    std::string name;
    std::vector<std::string> nodes;
    std::vector<std::uint32_t> node_of, app_of;
    std::vector<std::string> programs;  // of the apps
    std::vector<Rank> ranks;
    std::size_t n_started = 0, n_ended = 0;
    std::uint64_t spawn_request = 0;          // to be answered when all have started; 0: none
    bool joined = false;                      // a rank has called Init
    std::optional<std::uint32_t> stayed_out;  // a rank that ended well, and never did
    bool refused = false;                     // a part of it did not start: nothing of it may
  };

  // NodeEvents
  void started(RankId rank, pid_t pid, const std::string& note) override;
  void joined(RankId rank) override;
  void held(RankId rank) override;
  void not_started(std::uint32_t node, std::uint32_t job, const StartProblem& problem) override;
  void output(RankId rank, Stream stream, Text text) override;
  void output_ended(RankId rank, Stream stream) override;
  void output_lost(RankId rank, const std::string& problem) override;
  void exited(RankId rank, int wait_status, const pmix::RankState& state) override;
  void aborted(RankId by, int status, const std::string& message,
               const std::vector<RankId>& victims) override;
  void control_wanted(RankId by, const pmix::Control& control,
                      const std::vector<RankId>& targets) override;
  void spawn_wanted(RankId by, pmix::SpawnRequest request) override;
  void input_taken(RankId rank, std::size_t n_bytes, bool closed) override;
  void reported(const std::vector<std::string>& lines) override;
  void quiet() override;
  void lost(std::uint32_t node, const std::vector<std::uint32_t>& others,
            const std::string& cause) override;
  void told_to_end() override;

  void start(const JobSpec& job);
  void tell_start_problems();
  void start_input(const JobSpec& job);
  bool has_terminal(RankId id) const { return id.job == 0 && line_.pty_rank == id.rank; }
  void take_back_terminal(RankId id);
  std::vector<Host> hosts_as_they_are() const;
  void refuse_spawn(std::uint64_t request, const Error& why);
  Result<JobSpec> plan_spawn(const pmix::SpawnRequest& request);
  void judge_end_of(RankId id, int wait_status, const pmix::RankState& state);
  void judge_abort(RankId by, int status, const std::string& message,
                   const std::vector<RankId>& victims);
  void time_is_up();
  void judge_who_stayed_out(std::uint32_t number);
  void show_progress(const Job& job);
  // Ends the job because of a failure; `line` says which, "" when it was not the first.
  void failed(const std::string& line, double grace_s);
  void end(double grace_s, int ranks_get = SIGTERM);
  void finish_when_all_ended();
  bool all_ended() const;
  RankName name_of(RankId rank) const;
  // OutputOwner
  std::string prefix_of(RankId rank, Stream stream) const override;
  std::string record_of(RankId rank, Stream stream, const Text& text) const override;
  void written(RankId rank, Stream stream, std::size_t n_bytes) override;
  void output_failed(Stream stream, int error_number) override;
  void output_idle() override;

  // head_hold.cc
  void tell_who_waits();
  void let_go();

  // head_signals.cc
  void on_signal();
  void handle_signal(int signal_number);
  void resize();
  void stop_with_ranks();
  void expect_to_be_told();
  void after_what_we_are_told(std::function<void()> judge);

  void leave_when_written();
  void show_table() const;

  Loop& loop_;
  const CommandLine& line_;
  const Environment& own_environment_;
  const Plan& plan_;
  std::optional<std::uint32_t> local_;
  std::function<void(JobSpec&)> place_;
  Node* node_ = nullptr;
  Outcome outcome_;
  Output output_;
  UserTerminal terminal_;
  std::unique_ptr<StdinSource> input_;
  std::map<std::uint32_t, Job> jobs_;
  std::string job_id_;
  OutputSpec output_spec_;
  Fd signal_fd_;
  Watch signal_watch_, time_limit_, gather_, patience_, hold_, expect_;
  std::vector<std::function<void()>> to_judge_;  // when expect_ is over
  std::size_t reports_left_ = 0;                 // of nodes, before the job is ended
  bool let_go_ = false;                          // ranks that wait in Init, and those to come
  bool ending_ = false, quiet_ = false;
};

}  // namespace rlx::launcher
