// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/option_table.h"

#include <algorithm>

#include "base/words.h"
#include "launcher/option_apply.h"
#include "launcher/rank_file.h"

namespace rlx::launcher {
namespace {

Result<double> heartbeat_seconds(const std::string& word) {
  auto seconds = read_seconds(word);
  if (seconds && *seconds > 0 && *seconds < 0.01)
    return fail(Code::kInvalid, "want at least 0.01 s, or 0 for none");
  return seconds;
}
Result<int> n_ranks(const std::string& word) { return read_count(word, 1, kMaxRanks); }
Result<int> exit_code(const std::string& word) { return read_count(word, 0, 255); }
Result<int> tree_radix(const std::string& word) {
  constexpr int kMost = 64;  // agents at once
  return read_count(word, 1, kMost);
}

// Words of MPICH's: SYSTEM and AUTO are what is done without the option.
Result<int> universe_size(const std::string& word) {
  if (word == "INFINITE") return fail(Code::kInvalid, "want a number of ranks, or SYSTEM");
  return word == "SYSTEM" ? 0 : at_least_one(word);
}
Result<int> gpus_per_rank(const std::string& word) {
  return word == "AUTO" ? 0 : at_least_one(word);
}

Status add_hosts(CommandLine&, AppLine& app, Words w) {
  if (trimmed(w[0]).empty()) return fail(Code::kInvalid, "no host is named (an empty variable?)");
  app.hosts += (app.hosts.empty() ? "" : ",") + w[0];
  return {};
}

Status add_edit(CommandLine&, AppLine& app, Words w) {
  RLX_TRY_ASSIGN(auto edit, read_environment_edit(w[0]));
  app.environment.push_back(std::move(edit));
  return {};
}

Status add_edits(CommandLine&, AppLine& app, Words w) {
  return read_environment_file(w[0], app.environment);
}

Status add_host_file(CommandLine&, AppLine& app, Words w) {
  app.host_files.push_back(w[0]);
  return {};
}

constexpr Option kOptions[] = {
    {"-n, -np, --np", "-c --n", "N", Group::kRun, true,
     "ranks to start; without it, one for each core that may be used",
     read_app<n_ranks, &AppLine::n_ranks>},
    {"--app", "-app -configfile --configfile", "FILE", Group::kRun, false,
     "take the programs from a file: on each line what would stand between two ':'",
     read<text, &CommandLine::app_file>},
    {"--wdir", "-wdir -wd --wd -dir --chdir", "DIR", Group::kRun, true,
     "directory to start the program in", read_app<text, &AppLine::wdir>},
    {"--host", "-host -H -hosts --hosts", "LIST", Group::kRun, true,
     "hosts by comma, with slots behind a colon: a:4,user@b,n[01-16]:2; a host without slots gets "
     "one for each core; inside a resource manager's job, those of its hosts to use",
     add_hosts},
    {"--hostfile", "-hostfile --machinefile -machinefile --machine-file -f", "FILE", Group::kRun,
     true,
     "hosts from a file: lines 'host slots=4 max_slots=8 user=me port=22' or 'host:4', or "
     "MLX's JSON, [{\"ssh\": \"host\"}] or {\"hosts\": [...]} (also RLX_HOSTFILE)",
     add_host_file},
    {"--rm", "-rmk", "WHO", Group::kRun, false,
     "take the hosts of this resource manager only: slurm, pbs, lsf, sge, flux, or none; without "
     "it, of the first whose job this is",
     read<read_manager, &CommandLine::manager>},
    {"--nproc-per-node",
     "-N -ppn --ppn -perhost -npernode --npernode --nproc_per_node --ntasks-per-node", "N",
     Group::kRun, false, "ranks on each host: a number, core (one for each) or gpu",
     read_into<read_per_node, &CommandLine::map>},
    {"--launcher", "-launcher --bootstrap -bootstrap", "HOW", Group::kRun, false,
     "start daemons on other hosts by ssh, slurm (srun), flux (flux exec), manual (you type what "
     "it prints) or a command",
     read<text, &CommandLine::tree, &TreeOptions::launcher>},
    {"--launch-agent", "-launcher-exec -bootstrap-exec --bootstrap-exec --rsh-agent", "COMMAND",
     Group::kRun, false,
     "the same with a command that does what ssh does: COMMAND [-p PORT] [USER@]HOST LINE",
     read<text, &CommandLine::tree, &TreeOptions::launcher>},
    {"--prefix", "-prefix", "DIR", Group::kRun, false,
     "where rlx is installed on other hosts (default: where this rlxrun is)",
     read<text, &CommandLine::tree, &TreeOptions::prefix>},
    {"--start-timeout", "--spawn-timeout", "TIME", Group::kRun, false,
     "time for all hosts to answer (default 60; 600 with --launcher manual)",
     read<read_seconds, &CommandLine::tree, &TreeOptions::start_timeout_s>},
    {"--heartbeat", "", "TIME", Group::kRun, false,
     "hosts are heard of this often (default 5), and lost after six times of silence; 0: however "
     "long they are silent, until their connection ends",
     read<heartbeat_seconds, &CommandLine::tree, &TreeOptions::ping_s>},
    {"--tree-radix", "-branch-count --branch-count", "N", Group::kRun, false,
     "hosts that one process starts daemons on, which start the rest (default 32)",
     read<tree_radix, &CommandLine::tree, &TreeOptions::radix>},
    {"--oversubscribe", "-oversubscribe --overcommit", "", Group::kRun, false,
     "allow more ranks than slots", set<true, &CommandLine::map, &MapOptions::oversubscribe>},
    {"--timeout", "-timeout", "TIME", Group::kRun, false,
     "end the job with exit code 124 this time (90, 10m, 1:30; 0: no limit) after rlxrun began, "
     "however often --max-restarts has started it again",
     read<read_seconds, &CommandLine::end, &EndOptions::timeout_s>},
    {"--timeout-exit-code", "", "N", Group::kRun, false,
     "the exit code when --timeout ends the job, instead of 124",
     read<exit_code, &CommandLine::end, &EndOptions::timeout_exit_code>},
    {"--stop-in-init", "", "", Group::kRun, false,
     "let ranks that use PMIx wait in their init (rlx_init, Open MPI's MPI_Init) so that debuggers "
     "can be attached to them, until rlxrun gets SIGCONT, or at once where a debugger that drives "
     "rlxrun has had its time to attach",
     set<true, &CommandLine::stop_in_init>},
    {"--usize", "-usize", "N", Group::kRun, false,
     "the size of the universe that programs are told, which may spawn up to it; without it, the "
     "slots of all hosts",
     read<universe_size, &CommandLine::universe_size>},

    {"--map-by", "-map-by", "HOW", Group::kPlace, false,
     "place ranks by slot (filling one host after another), node (one on each host in turn), "
     "package, numa, l3, l2, l1, core, hwt or gpu (in turn on each of a host; with :span on those "
     "of all hosts), ppr:N:OBJECT, seq (as the hosts are listed) or rankfile; :pe=N gives each "
     "rank "
     "N cores, or N threads with --bind-to hwt",
     read_into<read_map_by, &CommandLine::map>},
    {"--rankfile", "-rankfile -rf --rf", "FILE", Group::kPlace, false,
     "place ranks as lines 'rank 0=host slot=0-3' say: cores of the host, or PACKAGE:CORES",
     read_into<read_rank_file, &CommandLine::map>},
    {"--rank-by", "-rank-by", "HOW", Group::kPlace, false,
     "number ranks host by host (slot), host after host in turn (node) or object by object (fill)",
     read<read_rank_by, &CommandLine::map, &MapOptions::rank_by>},
    {"--bind-to", "-bind-to", "WHAT", Group::kPlace, false,
     "bind each rank to an equal slice of the cores (the default), core, hwt, l1, l2, l3, numa, "
     "package or none",
     read_into<read_bind_to, &CommandLine::map>},
    {"--gpus-per-rank", "-gpus-per-proc --gpus-per-task --gpus-per-proc", "N", Group::kPlace, false,
     "let each rank see only N GPUs, of those that may be used, and run near them; without it a "
     "rank sees all, and RLX_GPU is the number of its own",
     read<gpus_per_rank, &CommandLine::map, &MapOptions::gpus_per_rank>},
    {"--cpu-list", "--cpu-set -cpu-list", "LIST", Group::kPlace, false,
     "use only these hardware threads (0-3,8)",
     read<CpuSet::parse, &CommandLine::map, &MapOptions::only>},
    {"--report-bindings", "-report-bindings", "", Group::kPlace, false,
     "print where each rank runs", set<true, &CommandLine::report_bindings>},

    {"-x", "--x --env --set", "VAR[=VALUE]", Group::kEnvironment, true,
     "set a variable; the whole environment is passed anyway; ^VAR removes one; VAR may hold * and "
     "?, and none passes only what other -x name",
     add_edit},
    {"--env-file", "-env-file", "FILE", Group::kEnvironment, true,
     "the same from a file: on each line what -x takes; lines that begin with # are skipped",
     add_edits},
    {"--pmi1", "", "", Group::kEnvironment, true,
     "offer MPICH's PMI-1 instead of PMIx; for scripts, as programs linked with MPICH are "
     "recognised",
     set_app<true, &AppLine::pmi1>},

    {"--tag-output", "-tag-output -l --label-io -prepend-rank --prepend-rank", "[=rank|host|full]",
     Group::kOutput, false, "begin each line with its rank; standard error is marked with !",
     [](CommandLine& line, AppLine&, Words w) -> Status {
       RLX_TRY_ASSIGN(line.output.tag, read_tag(w.empty() ? "rank" : w[0]));
       return {};
     }},
    {"--timestamp-output", "-timestamp-output", "", Group::kOutput, false,
     "begin each line with the time", set<true, &CommandLine::output, &OutputOptions::timestamp>},
    {"--output-dir", "", "DIR", Group::kOutput, false,
     "write each rank's output to DIR/rank.0000.out and .err (of rank 0) and so on, instead of the "
     "terminal",
     read<read_directory, &CommandLine::output, &OutputOptions::directory>},
    {"--output-file", "", "PATTERN", Group::kOutput, false,
     "the same to files with names of your own, made on the rank's host: %r is the rank, %h the "
     "host, %n RLX_JOBID, %s the stream (out or err; without it both are in one file), %% a %",
     read<read_output_file, &CommandLine::output, &OutputOptions::files>},
    {"--output-mode", "", "MODE", Group::kOutput, false,
     "what happens to files of --output-dir or --output-file that are there: truncate (default) or "
     "append; a job that --max-restarts starts again appends",
     read<read_output_mode, &CommandLine::output, &OutputOptions::append>},
    {"--tee", "", "", Group::kOutput, false,
     "with --output-dir or --output-file: to the terminal as well",
     set<true, &CommandLine::output, &OutputOptions::tee>},
    {"--merge-stderr", "--merge-stderr-to-stdout -merge-stderr-to-stdout", "", Group::kOutput,
     false, "send the ranks' standard error to standard output",
     set<true, &CommandLine::output, &OutputOptions::merge_stderr>},
    {"--output-json", "", "", Group::kOutput, false,
     "print each line of the ranks as a JSON object on standard output: time, job (of spawned "
     "ranks), rank, host, stream (out or err), text, and partial where the line does not end; "
     "bytes that are no UTF-8 become U+FFFD",
     set<true, &CommandLine::output, &OutputOptions::json>},
    {"--stdin", "-stdin -s", "WHO", Group::kOutput, false,
     "rank that reads standard input (default 0), all or none",
     read<read_stdin, &CommandLine::stdin_to>},
    {"--pty", "-pty", "[=RANK]", Group::kOutput, false,
     "give this rank (default 0) a terminal, on whichever host it runs, for debuggers, shells and "
     "editors: it gets what is typed, Ctrl-C too, and what it writes is shown at once, without "
     "tags and whatever --output-dir says",
     [](CommandLine& line, AppLine&, Words w) -> Status {
       RLX_TRY_ASSIGN(const int rank, w.empty() ? Result<int>(0) : read_count(w[0], 0));
       line.pty_rank = static_cast<std::uint32_t>(rank);
       return {};
     }},

    {"--kill-grace", "", "TIME", Group::kEnd, false,
     "time between SIGTERM and SIGKILL for the other ranks when one fails (default 0.5)",
     read<read_seconds, &CommandLine::end, &EndOptions::kill_grace_s>},
    {"--term-grace", "", "TIME", Group::kEnd, false,
     "the same when rlxrun itself is asked to end, say to write a checkpoint (default 2)",
     read<read_seconds, &CommandLine::end, &EndOptions::term_grace_s>},
    {"--int-signal", "", "SIGNAL", Group::kEnd, false,
     "what Ctrl-C sends the ranks first: TERM (default), or INT for those that want it (Python's "
     "KeyboardInterrupt)",
     read<read_signal, &CommandLine::end, &EndOptions::int_signal>},
    {"--on-failure", "", "WHAT", Group::kEnd, false,
     "when a rank fails: kill the others (default); notify those that listen (by PMIx) and let "
     "them run on; continue: the same even when a host is lost",
     read<read_on_failure, &CommandLine::end, &EndOptions::on_failure>},
    {"--stacks", "--get-stack-traces -get-stack-traces", "", Group::kEnd, false,
     "when --timeout ends the job, print each rank's stack too (by gdb or eu-stack, on its host)",
     set<true, &CommandLine::end, &EndOptions::stacks>},
    {"--max-restarts", "", "N", Group::kEnd, false,
     "start the whole job again, up to N times, when a rank fails or a host is lost; ranks find "
     "the number of the attempt in RLX_RESTART_COUNT",
     read<not_negative, &CommandLine::end, &EndOptions::max_restarts>},

    {"-q, --quiet", "-quiet", "", Group::kShow, false, "no notes, only errors",
     set<0, &CommandLine::verbosity>},
    {"-v, --verbose", "-verbose", "", Group::kShow, false, "say what is done",
     set<2, &CommandLine::verbosity>},
    {"--display", "", "WHAT", Group::kShow, false, "print map, bind, alloc or topo (by comma)",
     read_into<read_display>},
    {"--dry-run", "--do-not-launch --donotlaunch -do-not-launch", "", Group::kShow, false,
     "print what would be started, start nothing (other hosts are asked for their cores)",
     set<true, &CommandLine::dry_run>},
    {"--json", "", "", Group::kShow, false, "print it as JSON, for programs",
     set<true, &CommandLine::json>},
    {"--topo-file", "", "FILE", Group::kShow, false,
     "with --dry-run: map onto the machine in this file of lstopo; HOST=FILE for one host",
     read_into<read_topology_file>},
    {"--show-progress", "-show-progress", "", Group::kShow, false,
     "say how many hosts answer and how many ranks have been started",
     set<true, &CommandLine::show_progress>},
    {"--status", "", "", Group::kShow, false,
     "list the jobs of this user that rlxrun runs from this host, with ranks, hosts and pids",
     set<Action::kStatus, &CommandLine::action>},
    {"--man", "", "", Group::kShow, false, "print the manual page",
     set<Action::kMan, &CommandLine::action>},
    {"--completion", "", "", Group::kShow, false, "print the completion for bash",
     set<Action::kCompletion, &CommandLine::action>},
    {"-h, --help", "-help -?", "", Group::kShow, false, "print this",
     set<Action::kHelp, &CommandLine::action>},
    {"-V, --version", "-version", "", Group::kShow, false, "print the version",
     set<Action::kVersion, &CommandLine::action>},
};

}  // namespace

const std::vector<Option>& options() {
  static const std::vector<Option> all = [] {
    std::vector<Option> rows(std::begin(kOptions), std::end(kOptions));
    rows.insert(rows.end(), foreign_options().begin(), foreign_options().end());
    return rows;
  }();
  return all;
}

std::string_view title_of(Group group) {
  switch (group) {
    case Group::kRun:
      return "What to run";
    case Group::kPlace:
      return "Where on the machine";
    case Group::kEnvironment:
      return "Environment";
    case Group::kOutput:
      return "Output and input";
    case Group::kEnd:
      return "How it ends";
    case Group::kShow:
      return "What is shown";
    case Group::kForeign:
      break;
  }
  return "Of other launchers";
}

std::vector<std::string> spellings(const Option& option) {
  auto out = words_of(option.names, ", ");
  for (auto& word : words_of(option.also)) out.push_back(std::move(word));
  return out;
}

bool has_optional_argument(const Option& option) { return option.argument.starts_with("["); }

std::size_t argument_count(const Option& option) {
  if (option.argument.empty() || has_optional_argument(option)) return 0;
  return 1 +
         static_cast<std::size_t>(std::count(option.argument.begin(), option.argument.end(), ' '));
}

}  // namespace rlx::launcher
