// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The PMIx server of one node: what a launcher (or its daemon on a node) needs to host ranks.
//
// Threads: libpmix runs its own two threads, which get no signals and only queue work; everything a
// caller sees happens on the thread that calls dispatch(), and all functions below are called from
// that one.
// Order of a job: start, register_job, environment + fork for each local rank, dispatch() whenever
// fd() is readable, rank_ended() for each reaped rank, deregister_job, then destroy the Server. A
// process starts one Server in its life: libpmix cannot be initialised again.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pmix_glue/job.h"

struct hwloc_topology;

namespace rlx::pmix {

class Exchange;

struct ServerOptions {
  std::string tmpdir;    // ours alone, mode 0700; the caller removes it after the Server is gone
  std::string hostname;  // of this node, byte for byte as in Job::nodes
  uint32_t node = 0;     // index of this daemon, into Job::nodes
  hwloc_topology* topology =
      nullptr;  // loaded, outlives the Server; null: libpmix discovers its own
};

// An unguessable name: libpmix lets any process of the user that knows it pose as a rank.
std::string new_job_name();

// Whether a variable belongs to some launcher telling its ranks who they are. None of those that
// this process inherited may reach ours.
bool belongs_to_a_launcher(std::string_view name);

// What the child process of one rank is given.
struct ChildSetup {
  std::vector<std::string> environment;  // "NAME=value", ready for exec
  int pmi_fd = -1;  // PMI-1 only: close-on-exec here; must be open under this number in the child.
                    // The caller closes it after the fork.
};

// The protocol a program is offered. A program of MPICH's family speaks PMI-1, everything else
// PMIx; MPICH builds that know both choose wrongly when they see both, so a rank gets one of the
// two.
enum class Protocol { kPmix, kPmi1 };

// Reads the program's ELF header: kPmi1 when it is linked with MPICH (libmpich.so.*, libmpi.so.12)
// and not with libpmix or librlx. Scripts and programs that load MPI later cannot be seen through:
// kPmix.
Protocol protocol_of(const std::string& executable);

enum class LogChannel { kStdout, kStderr };

// One app of a spawn request, as the program gave it.
struct SpawnApp {
  std::vector<std::string> argv;         // [0] is the command, not yet looked up in PATH
  std::vector<std::string> environment;  // "NAME=value", to be added to the launcher's own
  uint32_t n_ranks = 0;
  std::string wdir;   // empty: where the parent was started
  std::string hosts;  // comma list; empty: anywhere
};

struct SpawnRequest {
  uint64_t id = 0;  // to be given to Server::spawned
  ProcId parent;
  std::vector<SpawnApp> apps;
};

// What a rank wants done to others.
struct Control {
  enum class Kind : uint8_t {
    kSignal,     // send them `signal_number`
    kTerminate,  // ask them to end, then make them
    kKill,       // make them end
  } kind = Kind::kSignal;
  int signal_number = 0;
};

// What the launcher does when ranks ask for something. Called from Server::dispatch only.
class Host {
 public:
  virtual ~Host() = default;
  virtual void connected(const ProcId& rank) = 0;  // it called Init
  virtual void held(const ProcId& rank) = 0;       // it waits in Init for Server::release
  virtual void finalized(const ProcId& rank) = 0;
  // `victims` empty: the whole job of `by`.
  virtual void aborted(const ProcId& by, int status, const std::string& message,
                       const std::vector<ProcId>& victims) = 0;
  // `targets` are one or more ranks of jobs that are registered; some may have ended.
  virtual void control(const ProcId& by, const Control& control,
                       const std::vector<ProcId>& targets) = 0;
  // Answer each request exactly once with Server::spawned, from here or later.
  virtual void spawn(SpawnRequest request) = 0;
  virtual void logged(const ProcId& from, LogChannel channel, const std::string& text) = 0;
};

// What the server saw of a rank. A rank that connected and ended without finalizing has failed,
// whatever its exit status.
struct RankState {
  bool connected = false;
  bool finalized = false;
};

class Server {
 public:
  struct Impl;  // server_impl.h

  // For a job on this node alone.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options);
  // `exchange` (exchange.h) joins the servers of several nodes.
  static Result<std::unique_ptr<Server>> start(const ServerOptions& options,
                                               std::unique_ptr<Exchange> exchange);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Readable when dispatch has work (an epoll descriptor: requests, time limits, PMI-1 sockets).
  int fd() const;
  void dispatch(Host& host);

  // Makes the job known, with all its ranks, and prepares for those on this node, which may be
  // none.
  Status register_job(const Job& job);
  // `base` is the environment the rank would have without us, "NAME=value"; what PMIx (or PMI-1),
  // Open MPI and MPICH need is added, in place of what it has under these names.
  Result<ChildSetup> environment(const ProcId& rank, const std::vector<std::string>& base,
                                 Protocol protocol = Protocol::kPmix);

  // For those who ask which processes a job has.
  void rank_started(const ProcId& rank, pid_t pid);
  RankState state(const ProcId& rank) const;
  // Whether a rank of this node waits in a fence, connect or disconnect for other nodes, that is,
  // with all those of this node. While some of these have not come, libpmix keeps it to itself.
  bool is_in_fence(const ProcId& rank) const;
  // Whether a rank of this node waits in a barrier of PMI-1, for whichever ranks.
  bool is_in_barrier(const ProcId& rank) const;
  // Lets ranks that wait in Init by Job::stop_in_init go on, and those that come to it later.
  void release();
  // A rank of this node: completes what others wait for from it, here and on other nodes, and tells
  // those who listen. (The Exchange tells of other nodes' ranks.)
  void rank_ended(const ProcId& rank, const Ending& ending);
  // The answer to Host::spawn: the name of the new job (registered and forked), or why not:
  // kNoMemory for want of slots, kUnreachable for a host that is not of the job, kInvalid for a
  // program that cannot be run.
  void spawned(uint64_t id, const Result<std::string>& job);
  // After all its local ranks have ended, and before the Server is destroyed.
  void deregister_job(std::string_view name);

 private:
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx::pmix
