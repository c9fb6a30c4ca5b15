// SPDX-License-Identifier: MIT OR Apache-2.0
// The node this process runs on: hosts its PMIx server, starts its ranks, collects their output,
// reaps them and whatever they leave behind.
#pragma once

#include <signal.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "launcher/environment.h"
#include "launcher/guard.h"
#include "launcher/helpers.h"
#include "launcher/loop.h"
#include "launcher/node.h"
#include "launcher/process.h"
#include "launcher/rank_files.h"
#include "launcher/rank_stream.h"
#include "launcher/stacks.h"
#include "pmix_glue/exchange.h"

namespace rlx::launcher {

struct NodeSetup {
  std::string hostname;
  std::uint32_t index = 0;
  hwloc_topology* topology = nullptr;
  std::string scratch;      // directory for the PMIx server and for ranks
  std::string shm_scratch;  // directory on /dev/shm for segments of other MPIs; "": none
  const Guard* guard = nullptr;
  Helpers* helpers = nullptr;                // children of this process that are not ours
  const Environment* environment = nullptr;  // of a daemon, where ranks are guests of its host
  sigset_t signal_mask;                      // as this process was started, for the ranks
  bool ignores_sigpipe = false;
};

// The job as PMIx servers know it.
pmix::Job describe(const JobSpec& spec);

class LocalNode final : public Node, private pmix::Host, private StreamOwner {
 public:
  // Becomes the parent of all orphans below this process. SIGCHLD must be blocked in all threads.
  // `exchange` joins its PMIx server with those of other nodes.
  static Result<std::unique_ptr<LocalNode>> create(Loop& loop, NodeSetup setup, NodeEvents& head,
                                                   std::unique_ptr<pmix::Exchange> exchange);
  ~LocalNode() override;

  // Whether a rank has spoken to libpmix, which then has files of ranks to remove when it is shut
  // down. Otherwise that would only take time.
  bool used_pmix() const { return used_pmix_; }

  void start(const JobSpec& job) override;
  void signal(int signal_number) override;
  void signal_ranks(const std::vector<RankId>& ranks, int signal_number) override;
  void end(double grace_s, int signal_number) override;
  void end_ranks(const std::vector<RankId>& ranks, double grace_s) override;
  void finish() override;
  void output_taken(RankId rank, Stream stream, std::size_t n_bytes) override;
  void input(RankId rank, std::string bytes) override;
  void input_ended(RankId rank) override;
  void resize(RankId rank, WindowSize size) override;
  void spawn_answer(std::uint64_t id, const Result<std::string>& job) override;
  void release() override;
  void report() override;

 private:
  struct Rank {
    pid_t pid = -1;
    bool running = false;
    bool held = false;  // in Init, by JobSpec::stop_in_init
    std::unique_ptr<OutputStream> out, err;
    std::unique_ptr<InputStream> in;
  };
  struct Job {
    JobSpec spec;
    std::map<std::uint32_t, Rank> ranks;  // of this node
    std::size_t running = 0;
    bool joined = false;  // by a rank of this node
  };
  struct Runnable {
    std::string file;
    pmix::Protocol protocol = pmix::Protocol::kPmix;
  };
  struct Pipes {
    Fd rank_side[3], node_side[3];
  };

  LocalNode(Loop& loop, NodeSetup setup, NodeEvents& head);
  // pmix::Host
  void connected(const pmix::ProcId& proc) override;
  void held(const pmix::ProcId& proc) override;
  void finalized(const pmix::ProcId&) override {}
  void aborted(const pmix::ProcId& by, int status, const std::string& message,
               const std::vector<pmix::ProcId>& victims) override;
  void control(const pmix::ProcId& by, const pmix::Control& control,
               const std::vector<pmix::ProcId>& targets) override;
  void spawn(pmix::SpawnRequest request) override;
  void logged(const pmix::ProcId& from, pmix::LogChannel channel, const std::string& text) override;
  // StreamOwner
  bool text(OutputStream& stream, Text text) override;
  void ended(OutputStream& stream) override;
  void input_taken(InputStream& stream, std::size_t n_bytes, bool closed) override;

  std::optional<StartProblem> find_programs(const JobSpec& job,
                                            std::vector<Runnable>& programs) const;
  std::optional<StartProblem> start_rank(Job& job, std::uint32_t rank, const Runnable& program,
                                         StartBatch& batch);
  std::optional<StartProblem> confirm_started(Job& job, StartBatch& batch);
  Result<pmix::ChildSetup> environment_of(const JobSpec& job, std::uint32_t rank,
                                          const Runnable& program);
  Status open_streams(const JobSpec& job, std::uint32_t rank, Pipes& pipes);
  Status open_pipes(const JobSpec& job, std::uint32_t rank, Pipes& pipes);
  void watch_pipes(Job& job, std::uint32_t rank, Pipes pipes);

  void reap();
  void rank_exited(Job& job, std::uint32_t rank, int wait_status);
  Rank* find(RankId id);
  RankId id_of(const pmix::ProcId& proc) const;
  std::vector<RankId> ids_of(const std::vector<pmix::ProcId>& procs) const;
  bool any_running() const;

  std::vector<pid_t> others() const;
  bool has_children() const;
  void kill_within(double grace_s);
  void signal_descendants(int signal_number);
  void kill_all();
  std::string state_line(const Job& job, std::uint32_t rank) const;
  void check_quiet();
  void drain();

  Loop& loop_;
  NodeSetup setup_;
  NodeEvents& head_;
  std::unique_ptr<pmix::Server> server_;
  std::map<std::uint32_t, Job> jobs_;
  RankFiles files_;
  std::unique_ptr<Stacks> stacks_;
  Fd child_signal_;
  Watch child_watch_, server_watch_, kill_timer_, drain_timer_;
  std::vector<Watch> rank_timers_;
  Deadline kill_at_ = Deadline::never();
  int ended_by_ = 0;  // the last signal of end()
  bool used_pmix_ = false, ending_ = false, told_leftovers_ = false, quiet_ = false;
};

}  // namespace rlx::launcher
