// SPDX-License-Identifier: MIT OR Apache-2.0
// rlxrun: reads the command line, plans, and puts a head and the node of this host together.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <optional>

#include "base/knobs.h"
#include "launcher/head.h"
#include "launcher/help.h"
#include "launcher/hosts.h"
#include "launcher/local_node.h"
#include "launcher/node_facts.h"
#include "launcher/scratch.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

// Bytes of all streams on their way, which bounds our memory, and of one.
constexpr std::size_t kAllWindows = 32 << 20, kLeastWindow = 64 << 10, kMostWindow = 256 << 10;

int complain(const std::string& text, int exit_code) {
  fmt::print(stderr, "rlxrun: {}\n", text);
  if (exit_code == kExitUsage) fmt::print(stderr, "Try 'rlxrun --help'.\n");
  return exit_code;
}

// A descriptor we open must never become somebody's standard output.
void open_missing_standard_streams() {
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) < 0) [[maybe_unused]]
      const int opened = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

// The signals the head reads. One that was ignored when we were started (nohup, a background job of
// a shell) stays ignored.
sigset_t block_signals(sigset_t& before) {
  sigset_t ours;
  sigemptyset(&ours);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    struct sigaction action {};
    sigaction(number, nullptr, &action);
    if (action.sa_handler != SIG_IGN) sigaddset(&ours, number);
  }
  sigset_t blocked = ours;
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  signal(SIGCHLD, SIG_DFL);  // an ignored one would reap the ranks for us
  return ours;
}

bool ignore_sigpipe() {
  struct sigaction before {
  }, ignore{};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &before);
  return before.sa_handler == SIG_IGN;
}

// libpmix crashes, here and in ranks, for a user who has neither HOME nor an entry in the list of
// users, as is common in containers.
void ensure_home(Environment& environment) {
  if (environment.get("HOME") || getpwuid(geteuid())) return;
  environment.set("HOME", "/");
  setenv("HOME", "/", 0);
}

std::optional<std::string> print_what_was_asked(Action action) {
  switch (action) {
    case Action::kHelp:
      return help_text();
    case Action::kVersion:
      return version_text();
    case Action::kMan:
      return man_page();
    case Action::kCompletion:
      return bash_completion();
    case Action::kRun:
      break;
  }
  return std::nullopt;
}

std::vector<std::string> scratch_parents(const Environment& environment) {
  std::vector<std::string> parents;
  if (!knobs().tmpdir.empty()) parents.push_back(knobs().tmpdir);
  if (const auto usual = environment.get("TMPDIR"); usual && !usual->empty())
    parents.push_back(*usual);
  for (const char* usual : {"/tmp", "/var/tmp", "/dev/shm"}) parents.emplace_back(usual);
  return parents;
}

std::string displayed(const CommandLine& line, const Plan& plan) {
  std::string text;
  if (line.show_allocation) text += allocation_text(plan);
  if (line.show_topology)
    for (const auto& host : plan.hosts) text += topology_text(host);
  if (line.show_map || line.dry_run) text += map_text(plan, line.apps);
  if (line.report_bindings || line.dry_run) text += bindings_text(plan);
  return text;
}

// What is found out before anything is started.
struct Prepared {
  CommandLine line;
  Environment environment;
  std::string hostname;
  std::optional<Topology> topology;
  Plan plan;
};

Status prepare(Prepared& job) {
  TopologySource source;
  source.xml_file = job.line.topology_file;
  if (!source.xml_file.empty() && !job.line.dry_run)
    return fail(Code::kInvalid, "--topo-file is for --dry-run: ranks run on the real machine");
  job.line.map.oversubscribe |= knobs().oversubscribe == 1;
  RLX_TRY_ASSIGN(job.topology, Topology::load(source));
  job.hostname = own_hostname();
  RLX_TRY_ASSIGN(const auto allocation, read_allocation(job.line, job.environment, job.hostname));
  for (const auto& host : allocation.hosts)
    if (!is_this_host(host.name, job.hostname))
      return fail(Code::kUnsupported,
                  fmt::format("host '{}' is not this machine ({}): this build starts ranks on one "
                              "host",
                              host.name, job.hostname));
  const auto facts = facts_of(*job.topology, job.environment, job.hostname);
  Topologies topologies;
  topologies.add(*job.topology);
  RLX_TRY_ASSIGN(auto hosts, hosts_of(allocation, {&facts, 1}, topologies));
  RLX_TRY_ASSIGN(job.plan, make_plan(job.line, std::move(hosts)));
  return {};
}

// The directories of the job, known to the guard.
struct Directories {
  std::unique_ptr<Scratch> main, shm;
  std::string note;
};

Status make_directories(const Environment& environment, const Guard& guard, Directories& made) {
  const auto parents = scratch_parents(environment);
  remove_stale_scratch(parents[0]);
  if (parents[0] != "/dev/shm") remove_stale_scratch("/dev/shm");
  RLX_TRY_ASSIGN(made.main, Scratch::create(parents, made.note));
  guard.will_remove(made.main->path());
  std::string unimportant;
  if (auto shm = Scratch::create({"/dev/shm"}, unimportant)) {
    made.shm = std::move(*shm);
    guard.will_remove(made.shm->path());
  }
  return {};
}

OutputSpec output_spec(const CommandLine& line, std::size_t n_ranks, bool terminal) {
  OutputSpec spec;
  spec.return_ends_line = terminal;
  spec.merge_stderr = line.output.merge_stderr;
  spec.timestamp = line.output.timestamp;
  spec.directory = line.output.directory;
  spec.send = spec.directory.empty() || line.output.tee;
  spec.window = std::clamp(kAllWindows / (2 * n_ranks), kLeastWindow, kMostWindow);
  return spec;
}

void tell_notes(Head& head, const Prepared& job, const std::string& scratch_note,
                const std::vector<std::string>& more) {
  if (!job.line.ignored.empty())
    head.note(
        fmt::format("ignored, as they mean nothing here: {}", fmt::join(job.line.ignored, ", ")));
  if (!job.plan.mapping.note.empty()) head.note(job.plan.mapping.note);
  if (!scratch_note.empty()) head.note(scratch_note + "; using another place for temporary files");
  for (const auto& note : more) head.note(note);
}

// Returns the signal to end by, or 0.
int run(const Prepared& job, const Guard& guard, int& exit_code) {
  HeadSetup setup;
  NodeSetup node_setup;
  node_setup.ignores_sigpipe = ignore_sigpipe();
  setup.signals = block_signals(node_setup.signal_mask);
  setup.line = &job.line;
  setup.own_environment = &job.environment;
  setup.plan = &job.plan;
  Directories directories;
  if (auto status = make_directories(job.environment, guard, directories); !status) {
    exit_code = complain(status.error().text, 1);
    return 0;
  }
  Loop loop;
  Head head(loop, setup);
  node_setup.hostname = job.hostname;
  node_setup.topology = job.topology->handle();
  node_setup.scratch = directories.main->path();
  if (directories.shm) node_setup.shm_scratch = directories.shm->path();
  node_setup.guard = &guard;
  auto node = LocalNode::create(loop, node_setup, head);
  if (!node) {
    exit_code = complain(node.error().text, 1);
    return 0;
  }
  head.set_node(**node);
  JobRequest request;
  std::vector<std::string> notes;
  request.apps = make_apps(job.line, job.environment, notes);
  request.name = pmix::new_job_name();
  request.id = random_id();
  request.output = output_spec(job.line, job.plan.mapping.places.size(), head.output_is_terminal());
  request.master_port = free_port();
  tell_notes(head, job, directories.note, notes);
  if (const auto text = displayed(job.line, job.plan); !text.empty())
    fmt::print(stderr, "{}", text);
  head.run(make_job(std::move(request), job.plan));
  guard.dismiss();
  exit_code = head.outcome().exit_code();
  if (!(*node)->used_pmix()) [[maybe_unused]]
    const LocalNode* left_behind = node->release();
  return head.outcome().signal_number();
}

int launch(Prepared& job) {
  if (auto status = prepare(job); !status)
    return complain(status.error().text, status.error().code == Code::kInvalid ? kExitUsage : 1);
  if (job.line.dry_run) {
    fmt::print("{}", displayed(job.line, job.plan));
    return 0;
  }
  int exit_code = 0, signal_number = 0;
  {
    const Guard guard = Guard::start();
    signal_number = run(job, guard, exit_code);
  }
  if (signal_number != 0) {  // so that a shell sees what ended us
    signal(signal_number, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal_number);
    raise(signal_number);
    sigprocmask(SIG_UNBLOCK, &one, nullptr);
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  open_missing_standard_streams();
  Prepared job;
  job.environment = Environment::of_this_process();
  ensure_home(job.environment);
  auto line = parse_command_line({argv + std::min(argc, 1), argv + argc});
  if (!line) return complain(line.error().text, kExitUsage);
  job.line = std::move(*line);
  if (const auto text = print_what_was_asked(job.line.action)) {
    fmt::print("{}", *text);
    return 0;
  }
  if (auto status = check_knobs(); !status) return complain(status.error().text, kExitUsage);
  // No destructors of statics: a writer stuck behind a reader that does not read must not hold us.
  const int exit_code = launch(job);
  fflush(stdout);
  _exit(exit_code);
}
