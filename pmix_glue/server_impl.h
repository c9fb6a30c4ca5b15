// SPDX-License-Identifier: MIT OR Apache-2.0
// The inside of Server, shared by its .cc files. Requests come from libpmix's thread in upcalls.cc,
// are moved to the dispatching thread by `shift`, and are carried out by the functions here.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "pmix_glue/exchange.h"
#include "pmix_glue/pmi1.h"
#include "pmix_glue/server.h"
#include "pmix_glue/shift.h"

namespace rlx::pmix {

struct RankRecord {
  RankState state;    // written by libpmix's thread, under Impl::mutex
  bool lost = false;  // likewise: its connection broke before it finalized
  pid_t pid = 0;
  std::optional<Ending> ending;
};

struct JobRecord {
  Job job;
  std::string dir;  // of the job's ranks, under the server's
  std::vector<RankRecord> ranks;
  std::unique_ptr<Pmi1Job> pmi1;  // made with the first rank that speaks it
  std::map<uint32_t, int> pmi1_sockets;
};

// A question to other nodes: answered once, by the exchange, by time, or by the end of a rank of
// `procs`, whichever comes first.
struct Waiting {
  std::vector<ProcId> procs;
  Exchange::BytesReply reply;
  std::optional<Shift::TimerId> timer;
};

// What another node wants to read of a rank of ours, which has not put it yet.
struct Reading {
  ProcId owner;
  Exchange::BytesReply reply;
  std::optional<Shift::TimerId> timer;
};

struct Server::Impl final : Exchange::Home {
  ServerOptions options;
  hwloc_topology* own_topology = nullptr;
  std::unique_ptr<Exchange> exchange;
  Shift shift;
  Host* host = nullptr;  // during dispatch

  mutable std::mutex mutex;  // guards the map's shape and RankRecord::state
  std::map<std::string, JobRecord, std::less<>> jobs;
  uint64_t n_jobs = 0;

  std::map<uint64_t, Waiting> waiting;
  uint64_t next_waiting = 1;
  std::map<uint64_t, Reading> readings;
  uint64_t next_reading = 1;
  struct Spawning {
    pmix_spawn_cbfunc_t callback;
    void* context;
  };
  std::map<uint64_t, Spawning> spawnings;
  uint64_t next_spawning = 1;

  ~Impl() override;
  hwloc_topology* topology() const {
    return options.topology != nullptr ? options.topology : own_topology;
  }
  RankRecord* find(const ProcId& rank);
  const RankRecord* find(const ProcId& rank) const;

  // jobs.cc
  Status register_job(const Job& job);
  void deregister_job(std::string_view name);
  // environment.cc
  Result<ChildSetup> environment(const ProcId& rank, const std::vector<std::string>& base,
                                 Protocol protocol);
  // pmi1_link.cc
  Result<int> open_pmi1(JobRecord& record, uint32_t rank);  // the child's end
  void read_pmi1(const std::string& job, uint32_t rank);
  void send_pmi1(const JobRecord& record, const Pmi1Job::Output& out) const;
  void close_pmi1(JobRecord& record);
  // fence.cc. `reply` gets all nodes' data; an error when a rank of `procs` is gone or time is up.
  void gather(Meeting kind, std::vector<ProcId> procs, Result<std::string> part,
              std::optional<int64_t> timeout, Exchange::BytesReply reply);
  void fetch(const ProcId& owner, std::optional<int64_t> timeout, Exchange::BytesReply reply);
  uint64_t wait(std::vector<ProcId> procs, std::optional<int64_t> timeout,
                Exchange::BytesReply reply);
  void answer(uint64_t waiting_id, Result<std::string> result);
  void fail_waiting_for(const ProcId& rank);
  // The first rank of `procs` that is gone, as words for a message.
  std::optional<std::string> missing(const std::vector<ProcId>& procs) const;
  // modex.cc
  void read(const ProcId& owner, Exchange::BytesReply reply) override;
  void end_reading(uint64_t id, Result<std::string> result);
  void owner_ended(const ProcId& owner, bool failed);
  // events.cc
  void end_rank(const ProcId& rank, const Ending& ending);
  void peer_ended(const ProcId& rank, const Ending& ending) override { end_rank(rank, ending); }
  void told(const std::string& event) override;
  void release();
  // query.cc
  std::vector<Process> processes(const std::string& job) override;
};

// libpmix's server functions carry no context, and there is one Server a process: upcalls.cc,
// control.cc, names.cc and query.cc reach it through this.
extern Server::Impl* upcall_target;
Status watch_connections();  // marks RankRecord::lost
Status watch_held_ranks();   // tells Host::held
pmix_server_module_t upcall_module();
void add_control_upcalls(pmix_server_module_t& module);
void add_event_upcalls(pmix_server_module_t& module);
void add_name_upcalls(pmix_server_module_t& module);
void add_query_upcalls(pmix_server_module_t& module);

}  // namespace rlx::pmix
