// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/file.h"
#include "base/knobs.h"
#include "launcher/agent.h"
#include "launcher/described.h"
#include "launcher/display.h"
#include "launcher/gpu_probe.h"
#include "launcher/hosts.h"
#include "launcher/option_values.h"
#include "launcher/process.h"
#include "launcher/resource_manager.h"

namespace rlx::launcher {
namespace {

constexpr double kStartTime = 60, kTypingTime = 600;  // for hosts to answer: by machine, by hand

// Bytes of all streams on their way, which bounds our memory, and of one.
constexpr std::size_t kAllWindows = 32 << 20, kLeastWindow = 4 << 10, kMostWindow = 256 << 10;

OutputSpec output_spec(const CommandLine& line, std::size_t n_ranks, bool terminal) {
  OutputSpec spec;
  spec.return_ends_line = terminal && !line.output.json;
  spec.merge_stderr = line.output.merge_stderr;
  spec.timestamp = line.output.timestamp;
  spec.files = line.output.directory.empty() ? line.output.files : files_in(line.output.directory);
  spec.append = line.output.append || line.restarted > 0;
  spec.send = spec.files.empty() || line.output.tee;
  spec.window = std::clamp(kAllWindows / (2 * n_ranks), kLeastWindow, kMostWindow);
  return spec;
}

// As the user sees it: a path that an automounter knows by another name is best left as it is.
std::string working_directory(const Environment& environment) {
  struct stat here {
  }, named{};
  const auto name = environment.get("PWD");
  if (name && name->starts_with('/') && stat(".", &here) == 0 && stat(name->c_str(), &named) == 0 &&
      here.st_dev == named.st_dev && here.st_ino == named.st_ino)
    return *name;
  std::error_code error;
  return std::filesystem::current_path(error);
}

}  // namespace

Status Launch::prepare() {
  TopologySource source;
  source.devices = may_have_gpus();
  line_.map.oversubscribe |= knobs().oversubscribe == 1;
  RLX_TRY_ASSIGN(topology_, Topology::load(source));
  topologies_.add(*topology_);
  hostname_ = own_hostname();
  RLX_TRY_ASSIGN(allocation_, read_allocation(line_, environment_, hostname_));
  if (line_.verbosity > 1)
    for (const auto& note : allocation_.notes) fmt::print(stderr, "rlxrun: {}\n", note);
  leave_out(allocation_, line_.lost_hosts);
  for (std::uint32_t i = 0; i < allocation_.hosts.size() && !local_; ++i)
    if (allocation_.hosts[i].here) local_ = i;
  const NodeFacts own = facts_of(*topology_, environment_, hostname_);
  if (!line_.topology_files.empty()) {
    RLX_TRY_ASSIGN(const auto facts, described_facts(line_, allocation_, own, topologies_));
    return plan(facts);
  }
  if (is_left_to_srun()) local_.reset();
  if (is_remote()) {
    RLX_TRY_ASSIGN(tree_.agent, agent_words(launcher()));
    if (tree_.agent.empty()) return fail(Code::kInvalid, "--launch-agent '' names no command");
    if (tree_.agent[0] == kFluxAgent && allocation_.manager != Manager::kFlux)
      return fail(
          Code::kInvalid,
          fmt::format("--launcher flux starts daemons on the hosts of a Flux job; these are "
                      "of {}",
                      allocation_.source));
    tree_.radix = static_cast<std::uint32_t>(line_.tree.radix);
    tree_.ping_s = line_.tree.ping_s;
    tree_.outlives_hosts = line_.end.on_failure == OnFailure::kContinue;
    return find_program_there(line_.tree.prefix.empty() ? knobs().remote_prefix : line_.tree.prefix,
                              tree_);
  }
  return plan({&own, 1});
}

std::string Launch::launcher() const {
  if (!line_.tree.launcher.empty()) return line_.tree.launcher;
  if (allocation_.manager == Manager::kSlurm) return std::string(kSlurmAgent);
  return allocation_.manager == Manager::kFlux ? std::string(kFluxAgent) : "ssh";
}

// In a shell of salloc we have no share of this node, and what we fork has none: no GPUs, and it is
// not in the control group of the step. A daemon that srun starts serves it like the other nodes.
// In a batch script, which Slurm started on its node, forking is as good, and quicker; so it is
// where there is no srun, as in a container.
bool Launch::is_left_to_srun() const {
  return launcher() == kSlurmAgent && !is_in_slurm_task(environment_) &&
         find_program("srun", "", environment_.get("PATH").value_or("")).exit_code == 0;
}

Status Launch::plan(std::span<const NodeFacts> facts) {
  RLX_TRY_ASSIGN(auto hosts, hosts_of(allocation_, facts, topologies_));
  RLX_TRY_ASSIGN(plan_, make_plan(line_, std::move(hosts), allocation_));
  apps_ = make_apps(line_, environment_, app_notes_);
  planned_ = true;
  return {};
}

LaunchEnd Launch::run() {
  if (planned_ && line_.dry_run) {
    if (line_.verbosity > 0)
      for (const auto& note : notes()) fmt::print(stderr, "rlxrun: {}\n", note);
    LaunchEnd end;
    if (const Status shown = print_out(displayed(line_, plan_)); !shown) {
      fmt::print(stderr, "rlxrun: {}\n", shown.error().text);
      end.exit_code = 1;
    }
    return end;
  }
  const Guard guard = Guard::start();
  HeadSetup setup;
  NodeSetup node;
  node.ignores_sigpipe = ignore_sigpipe();
  setup.signals = block_signals(node.signal_mask);
  setup.line = &line_;
  setup.own_environment = &environment_;
  setup.plan = &plan_;
  setup.local = local_;
  Loop loop;
  Helpers helpers(loop);
  std::unique_ptr<Cluster> cluster;
  setup.place = [&](JobSpec& job) { place(*cluster, job); };
  Head head(loop, setup);
  const std::time_t begin = std::time(nullptr);
  auto wanted = cluster_setup(guard, node, helpers);
  if (!wanted) {
    head.error(wanted.error().text);
    return {1, 0, false, "", false};
  }
  cluster = std::make_unique<Cluster>(loop, helpers, head, std::move(*wanted));
  head.set_node(*cluster);
  const StatusService service(loop, directories_.main->path(), [&] {
    LauncherStatus status = head.status();
    status.started = begin;
    for (const auto& app : line_.apps)
      status.command +=
          fmt::format("{}{}", status.command.empty() ? "" : " : ", fmt::join(app.argv, " "));
    return status;
  });
  cluster->connect([&](Facts facts) { nodes_are_known(head, *cluster, std::move(facts)); });
  loop.run();
  guard.dismiss();
  auto local = cluster->take_local();
  if (local && !local->used_pmix()) [[maybe_unused]]
    const LocalNode* left_behind = local.release();
  const Outcome& outcome = head.outcome();
  LaunchEnd end{outcome.exit_code(), outcome.signal_number(), outcome.may_restart(), "", false};
  judge_restart(end, *cluster);
  return end;
}

// Whether the words of the command line mean the same ranks on fewer hosts.
bool Launch::can_do_without(const std::vector<std::uint32_t>& lost) const {
  int n_slots = 0;
  for (std::uint32_t i = 0; i < allocation_.hosts.size(); ++i)
    if (std::find(lost.begin(), lost.end(), i) == lost.end())
      n_slots += planned_ ? plan_.hosts[i].slots : std::max(allocation_.hosts[i].slots, 1);
  const MapOptions& map = line_.map;
  return line_.apps.size() == 1 && line_.apps[0].n_ranks > 0 && n_slots >= line_.apps[0].n_ranks &&
         map.per_node == PerNode::kUnsaid &&
         (map.by == MapBy::kSlot || map.by == MapBy::kNode || map.by == MapBy::kObject);
}

// A host that was there before may be so again. Of a step that does not start it is not known which
// host is to blame.
void Launch::judge_restart(LaunchEnd& end, const Cluster& cluster) const {
  end.without = line_.lost_hosts;
  const auto lost = cluster.lost_nodes();
  if (lost.empty() || end.signal_number != 0 || line_.restarted == line_.end.max_restarts) return;
  end.may_restart |= !planned_ && line_.restarted > 0;
  if (!end.may_restart) return;
  std::vector<std::string> names;
  for (const auto node : lost) names.push_back(allocation_.hosts[node].name);
  const bool blamed = planned_ || launcher() == "ssh";
  end.awaits = !blamed || !can_do_without(lost);
  if (!end.awaits) {
    fmt::print(stderr, "rlxrun: the job goes on without {}\n", some_of(names));
    for (const auto& name : names) end.without += (end.without.empty() ? "" : ",") + name;
  } else if (blamed) {
    fmt::print(stderr,
               "rlxrun: {} is needed again: to leave it out, the other hosts must have slots for "
               "all ranks, and -np must say how many\n",
               some_of(names));
  }
}

Result<ClusterSetup> Launch::cluster_setup(const Guard& guard, const NodeSetup& node,
                                           Helpers& helpers) {
  ClusterSetup setup;
  for (const auto& host : allocation_.hosts)
    setup.hosts.push_back({static_cast<std::uint32_t>(setup.hosts.size()), host.name, host.user,
                           host.port, host.flux_rank});
  setup.local = local_;
  setup.local_facts = facts_of(*topology_, environment_, hostname_);
  setup.tree = tree_;
  const bool by_hand = is_remote() && tree_.agent[0] == kManualAgent;
  setup.start_timeout_s = line_.tree.start_timeout_s.value_or(by_hand ? kTypingTime : kStartTime);
  setup.environment = &environment_;
  setup.node = node;
  RLX_TRY(make_directories(environment_, guard, directories_));
  if (!local_) return setup;
  setup.node.topology = topology_->handle();
  setup.node.scratch = directories_.main->path();
  if (directories_.shm) setup.node.shm_scratch = directories_.shm->path();
  setup.node.guard = &guard;
  setup.node.helpers = &helpers;
  return setup;
}

void Launch::nodes_are_known(Head& head, const Cluster& cluster, Facts facts) {
  if (!facts) return head.give_up(facts.error(), 1);
  if (line_.show_progress) head.error(fmt::format("hosts that answer: {}", facts->size()));
  if (!planned_)
    if (auto status = plan(*facts); !status)
      return head.give_up({status.error().text},
                          status.error().code == Code::kInvalid ? kExitUsage : 1);
  for (const auto& note : notes()) head.note(note);
  if (line_.dry_run) {
    const Status shown = print_out(displayed(line_, plan_));
    return shown ? head.give_up({}, 0) : head.give_up({shown.error().text}, 1);
  }
  start(head, cluster);
}

void Launch::start(Head& head, const Cluster& cluster) {
  JobRequest request;
  request.apps = std::move(apps_);
  request.name = pmix::new_job_name();
  request.id = random_id();
  request.output = output_spec(line_, plan_.mapping.places.size(), head.output_is_terminal());
  request.universe_size = line_.universe_size;
  if (const auto text = displayed(line_, plan_); !text.empty()) fmt::print(stderr, "{}", text);
  JobSpec job = make_job(std::move(request), plan_);
  place(cluster, job);
  head.run(std::move(job));
}

// MASTER_ADDR and MASTER_PORT, where rank 0 will listen and all others look for it; and
// directories.
void Launch::place(const Cluster& cluster, JobSpec& job) const {
  if (is_remote()) stay_in_this_directory(job.apps, job.output);
  const std::uint32_t node = job.ranks[0].node;
  const bool alone = std::all_of(job.ranks.begin(), job.ranks.end(),
                                 [&](const RankSpec& rank) { return rank.node == node; });
  job.master_address = alone ? "127.0.0.1" : cluster.address_of(node);
  job.master_port = job.number == 0 || node != local_ ? cluster.free_port_of(node) : free_port();
}

// Daemons are started in other directories.
void Launch::stay_in_this_directory(std::vector<AppSpec>& apps, OutputSpec& output) const {
  const std::filesystem::path here = working_directory(environment_);
  for (auto& app : apps) app.wdir = app.wdir.empty() ? here : here / app.wdir;
  if (!output.files.empty() && !output.files.starts_with('/'))
    output.files = fmt::format("{}/{}", as_pattern(here.string()), output.files);
}

std::vector<std::string> Launch::notes() const {
  std::vector<std::string> notes;
  if (!line_.ignored.empty())
    notes.push_back(
        fmt::format("ignored, as they mean nothing here: {}", fmt::join(line_.ignored, ", ")));
  notes.insert(notes.end(), allocation_.warnings.begin(), allocation_.warnings.end());
  if (!plan_.mapping.note.empty()) notes.push_back(plan_.mapping.note);
  if (!directories_.note.empty())
    notes.push_back(directories_.note + "; using another place for temporary files");
  notes.insert(notes.end(), app_notes_.begin(), app_notes_.end());
  return notes;
}

}  // namespace rlx::launcher
