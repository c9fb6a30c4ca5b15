// SPDX-License-Identifier: MIT OR Apache-2.0
// What the head of a job and the daemon of a node say to each other. All arguments are plain data:
// for ranks on other hosts the same calls travel as messages over the pipe of the ssh or srun that
// started the daemon.
#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/lines.h"
#include "pmix_glue/server.h"

namespace rlx::launcher {

// Jobs are numbered by the head: 0 is the one on the command line, others were spawned by ranks.
struct RankId {
  std::uint32_t job = 0;
  std::uint32_t rank = 0;
  friend auto operator<=>(const RankId&, const RankId&) = default;
};

enum class Stream : std::uint8_t { kStdout, kStderr };

struct AppSpec {
  std::vector<std::string> argv;
  std::string wdir;                      // "": where the daemon was started
  std::vector<std::string> environment;  // "NAME=value"
  std::vector<std::string> chosen;       // names in it that the user gave, by -x
  std::uint32_t n_ranks = 0;
  bool pmi1 = false;  // offer PMI-1, whatever the program is linked with
};

struct RankSpec {
  std::uint32_t node = 0;
  std::uint32_t app = 0;
  std::uint32_t local_rank = 0;
  std::string cpus;           // list such as "0-3"; "": not bound
  std::uint32_t threads = 0;  // cores it may count on, for OMP_NUM_THREADS; 0: all
  // What the rank's environment has beyond its app's, say GPUs: "NAME=value", or "NAME" to remove.
  std::vector<std::string> environment;
};

struct OutputSpec {
  bool return_ends_line = false;  // the reader is a terminal: show progress bars and prompts
  bool merge_stderr = false;
  bool timestamp = false;
  std::string files;       // pattern of their names (rank_files.h), made by the node; "": none
  bool append = false;     // to files that are there
  bool send = true;        // to the head
  std::size_t window = 0;  // bytes of one stream on their way to the head
};

// Of a terminal, in characters; 0: not known.
struct WindowSize {
  std::uint16_t rows = 0, columns = 0;
};

// The rank that has a pseudo-terminal as standard input, output and error.
struct PtySpec {
  std::uint32_t rank = 0;
  WindowSize size;
};

struct JobSpec {
  std::uint32_t number = 0;
  std::string name;  // of the PMIx namespace
  std::string id;    // RLX_JOBID: marks the processes
  std::vector<std::string> nodes;
  std::vector<AppSpec> apps;
  std::vector<RankSpec> ranks;  // index is the rank
  std::uint32_t universe_size = 0;
  bool oversubscribed = false;
  std::optional<pmix::ProcId> parent;
  std::string master_address;  // where rank 0 is reached, for MASTER_ADDR
  int master_port = 0;
  OutputSpec output;
  std::vector<std::uint32_t> stdin_ranks;  // these have a pipe; the others read /dev/null
  bool stacks = false;                     // report() tells what each rank is doing, too
  bool stop_in_init = false;               // ranks that use PMIx wait in Init for Node::release
  bool inherit_stdin = false;  // the one of stdin_ranks gets the daemon's own input instead
  std::optional<PtySpec> pty;  // of one of stdin_ranks
};

// Why a rank was not started.
struct StartProblem {
  int exit_code = 1;  // 126, 127, or 1
  std::string text;
};

// From a node to the head.
class NodeEvents {
 public:
  virtual ~NodeEvents() = default;
  virtual void started(RankId rank, pid_t pid, const std::string& note) = 0;
  // The first rank of its job on its node that has called Init.
  virtual void joined(RankId rank) = 0;
  // It waits in Init for Node::release.
  virtual void held(RankId rank) = 0;
  // Ranks of this job on this node that have not been started by now will not be.
  virtual void not_started(std::uint32_t node, std::uint32_t job, const StartProblem& problem) = 0;
  // The head answers with Node::output_taken.
  virtual void output(RankId rank, Stream stream, Text text) = 0;
  virtual void output_ended(RankId rank, Stream stream) = 0;
  // A file of the rank's output cannot be written: told once a file.
  virtual void output_lost(RankId rank, const std::string& problem) = 0;
  virtual void exited(RankId rank, int wait_status, const pmix::RankState& state) = 0;
  // `victims` empty: the whole job.
  virtual void aborted(RankId by, int status, const std::string& message,
                       const std::vector<RankId>& victims) = 0;
  // `by` asks for this to be done to `targets`.
  virtual void control_wanted(RankId by, const pmix::Control& control,
                              const std::vector<RankId>& targets) = 0;
  virtual void spawn_wanted(RankId by, pmix::SpawnRequest request) = 0;
  // The rank has read so much of its input; `closed`: it wants no more.
  virtual void input_taken(RankId rank, std::size_t n_bytes, bool closed) = 0;
  // The answer to report(): a line a living rank, and its stack if the job asks for stacks.
  virtual void reported(const std::vector<std::string>& lines) = 0;
  // After end() or finish(): no process is left and all output has been given.
  virtual void quiet() = 0;
};

// From the head to a node.
class Node {
 public:
  virtual ~Node() = default;
  virtual void start(const JobSpec& job) = 0;
  virtual void signal(int signal_number) = 0;  // to all ranks
  virtual void signal_ranks(const std::vector<RankId>& ranks, int signal_number) = 0;
  // `signal_number`, after the grace SIGKILL; at last to all that ranks have started.
  virtual void end(double grace_s, int signal_number) = 0;
  virtual void end_ranks(const std::vector<RankId>& ranks, double grace_s) = 0;
  // All ranks have exited: what they left running is ended.
  virtual void finish() = 0;
  virtual void output_taken(RankId rank, Stream stream, std::size_t n_bytes) = 0;
  virtual void input(RankId rank, std::string bytes) = 0;
  virtual void input_ended(RankId rank) = 0;
  // The window of the rank's pseudo-terminal.
  virtual void resize(RankId rank, WindowSize size) = 0;
  virtual void spawn_answer(std::uint64_t id, const Result<std::string>& job) = 0;
  // Of JobSpec::stop_in_init: ranks go on, and those that come to Init later do not wait.
  virtual void release() = 0;
  virtual void report() = 0;
};

}  // namespace rlx::launcher
