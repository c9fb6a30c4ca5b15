// SPDX-License-Identifier: MIT OR Apache-2.0
// What a user asked for, as plain data, and how a command line becomes it.
#pragma once

#include <signal.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/topology.h"

namespace rlx::launcher {

// One -x: set NAME to value, make sure that all names that match a pattern are passed, or remove
// them.
struct EnvironmentEdit {
  enum class Kind { kSet, kPass, kUnset } kind = Kind::kPass;
  std::string pattern;  // a name; may hold * ? [..] for kPass and kUnset
  std::string value;
};

// Of a job: more than any machine runs, and a plan of so many takes a second.
inline constexpr int kMaxRanks = 1 << 20;

// One program of the job; several make an MPMD job.
struct AppLine {
  int n_ranks = 0;  // 0: not said
  std::vector<std::string> argv;
  std::string wdir;   // "": where rlxrun was started
  std::string hosts;  // as typed, by comma
  std::vector<std::string> host_files;
  std::vector<EnvironmentEdit> environment;
  bool pmi1 = false;
};

// Resource managers, in the order in which they are asked.
enum class Manager { kNone, kSlurm, kPbs, kLsf, kSge, kFlux };
std::string_view name_of(Manager manager);

enum class MapBy { kSlot, kNode, kObject, kPerObject, kSequence, kRankFile };
enum class RankBy { kAsMapped, kSlot, kNode, kFill };
// kCpu: one thread, in the order of the system's numbers, which on most machines has the second
// threads of all cores last.
enum class BindTo { kSlice, kNone, kCpu, kObject };
enum class PerNode { kUnsaid, kNumber, kCores, kGpus };

// One line of a rank file: "rank 3=host slot=0:0-2".
struct RankLine {
  struct Part {
    int package = -1;  // its index on the host, -1: the whole host
    CpuSet cores;      // indexes within it, empty: all
  };
  std::string host;
  std::vector<Part> parts;  // none: not bound
  std::string source;       // "file:line"
};

struct MapOptions {
  MapBy by = MapBy::kSlot;
  bool by_said = false;               // by --map-by or --gpus-per-rank, rather than by default
  Locality object = Locality::kNode;  // of kObject and kPerObject
  bool object_is_gpu = false;         // instead
  int per_object = 0;                 // N of ppr:N:object
  int cores_per_rank = 0;             // pe=N, of threads where ranks are bound to them; 0: not said
  bool span = false;                  // objects of all hosts in turn, not host by host
  RankBy rank_by = RankBy::kAsMapped;
  BindTo bind = BindTo::kSlice;
  Locality bind_object = Locality::kCore;  // of BindTo::kObject
  CpuSet only;                             // --cpu-list; empty: all
  PerNode per_node = PerNode::kUnsaid;
  int ranks_per_node = 0;            // of PerNode::kNumber
  int gpus_per_rank = 0;             // 0: every rank sees all GPUs
  std::vector<RankLine> rank_lines;  // of kRankFile; index is the rank
  bool oversubscribe = false;
};

// What pe=N counts, and whether ranks are bound to such.
inline Locality unit_of(const MapOptions& options) {
  const bool threads = options.bind == BindTo::kObject && options.bind_object == Locality::kThread;
  return threads ? Locality::kThread : Locality::kCore;
}
inline bool binds_to_units(const MapOptions& options) {
  return options.bind == BindTo::kObject && options.bind_object == unit_of(options);
}

enum class Tag { kNone, kRank, kHost, kFull };

inline constexpr int kStdinAll = -1;
inline constexpr int kStdinNone = -2;

struct OutputOptions {
  Tag tag = Tag::kNone;
  bool timestamp = false;
  std::string directory;  // of --output-dir, "": none
  std::string files;      // pattern of --output-file, "": none
  bool tee = false;
  bool append = false;  // to files that are there
  bool merge_stderr = false;
  bool json = false;  // an object a line, all on standard output
};

// What the loss of a rank (or, with kContinue, of a host) does to the others.
enum class OnFailure { kKill, kNotify, kContinue };

struct EndOptions {
  double timeout_s = 0;  // 0: none
  std::optional<int> timeout_exit_code;
  double kill_grace_s = 0.5;
  double term_grace_s = 2;
  int int_signal = SIGTERM;  // what ranks get first when rlxrun gets SIGINT
  OnFailure on_failure = OnFailure::kKill;
  int max_restarts = 0;
  bool stacks = false;  // of all ranks, when the time is up
};

// How daemons are started on other hosts.
struct TreeOptions {
  std::string launcher;  // "ssh", "slurm", "manual", a command, "": as fits the allocation
  std::string prefix;    // of the installation there, "": where this rlxrun is
  std::optional<double> start_timeout_s;
  double ping_s = 5;  // 0: none
  int radix = 32;
};

enum class Action { kRun, kHelp, kVersion, kMan, kCompletion, kStatus };

struct CommandLine {
  Action action = Action::kRun;
  std::vector<AppLine> apps;
  std::string app_file;  // of --app, already among `apps`
  MapOptions map;
  OutputOptions output;
  EndOptions end;
  std::optional<int> stdin_to;  // rank, kStdinAll or kStdinNone
  std::optional<std::uint32_t> pty_rank;
  std::optional<Manager> manager;  // of --rm; kNone: take no notice of any
  TreeOptions tree;
  // Of --topo-file: file by host; the host "" stands for all others.
  std::map<std::string, std::string> topology_files;
  bool report_bindings = false, show_progress = false;
  bool dry_run = false;
  bool stop_in_init = false;
  bool json = false;  // what is displayed
  bool show_map = false, show_allocation = false, show_topology = false;
  int universe_size = 0;             // 0: the slots of all hosts
  int restarted = 0;                 // times that this job has been started before
  std::string lost_hosts;            // by comma: that it goes on without
  double began_s = now_ns() * 1e-9;  // the first of them
  int verbosity = 1;                 // 0: -q, 2: -v
  std::vector<std::string> ignored;  // options of other launchers, as typed
};

// `words` is argv without the program's own name. An error says which word is wrong, what was
// wanted and, for a misspelt option, the nearest one.
Result<CommandLine> parse_command_line(const std::vector<std::string>& words);

}  // namespace rlx::launcher
