// SPDX-License-Identifier: MIT OR Apache-2.0
// Jobs that ranks ask for (MPI_Comm_spawn).
#include "launcher/head.h"
#include "launcher/hosts.h"

namespace rlx::launcher {

void Head::spawn_wanted(RankId by, pmix::SpawnRequest request) {
  (void)by;
  auto job =
      ending_ ? Result<JobSpec>(fail(Code::kCancelled, "the job is ending")) : plan_spawn(request);
  if (!job) return refuse_spawn(request.id, job.error());
  jobs_[job->number].spawn_request = request.id;
  start(*job);
}

// The rank that asked for it decides what that means.
void Head::refuse_spawn(std::uint64_t request, const Error& why) {
  note("spawn refused: " + why.text);
  node_->spawn_answer(request, tl::unexpected(why));
}

// With the ranks that run on them.
std::vector<Host> Head::hosts_as_they_are() const {
  std::vector<Host> hosts = plan_.hosts;
  for (const auto& [number, job] : jobs_)
    for (std::size_t rank = 0; rank < job.ranks.size(); ++rank)
      if (!job.ranks[rank].ended) ++hosts[job.node_of[rank]].ranks_there;
  return hosts;
}

Result<JobSpec> Head::plan_spawn(const pmix::SpawnRequest& request) {
  CommandLine line = line_;
  line.apps.clear();
  JobRequest wanted;
  for (const auto& app : request.apps) {
    AppLine added;
    added.argv = app.argv;
    added.n_ranks = static_cast<int>(app.n_ranks);
    added.wdir = app.wdir;
    added.hosts = app.hosts;
    line.apps.push_back(added);
    Environment environment = own_environment_;
    for (const auto& entry : app.environment)
      if (const auto equals = entry.find('='); equals != std::string::npos)
        environment.set(entry.substr(0, equals), entry.substr(equals + 1));
    wanted.apps.push_back({app.argv, app.wdir, std::move(environment).take(), {}, app.n_ranks});
  }
  line.map.bind = BindTo::kNone;  // its parents hold the cores already
  line.stdin_to = kStdinNone;
  line.pty_rank.reset();
  // What was said of the places of the first ranks is for them.
  if (line.map.by != MapBy::kNode && line.map.by != MapBy::kObject) line.map.by = MapBy::kSlot;
  line.map.rank_lines.clear();
  line.map.per_node = PerNode::kUnsaid;
  line.map.rank_by = RankBy::kAsMapped;
  line.map.cores_per_rank = 0;
  Allocation within;
  for (const auto& host : plan_.hosts) within.hosts.emplace_back().name = host.name;
  auto of_app = hosts_of_apps(line.apps, within, own_hostname());
  if (!of_app) return fail(Code::kUnreachable, of_app.error().text);
  within.of_app = std::move(*of_app);
  const auto planned = make_plan(line, hosts_as_they_are(), within);
  if (!planned) return fail(Code::kNoMemory, planned.error().text);  // of slots
  const Plan& plan = *planned;
  wanted.number = static_cast<std::uint32_t>(jobs_.size());
  wanted.name = pmix::new_job_name();
  wanted.id = job_id_;
  wanted.output = output_spec_;
  wanted.universe_size = line_.universe_size;
  JobSpec job = make_job(std::move(wanted), plan);
  place_(job);
  job.parent = request.parent;
  return job;
}

}  // namespace rlx::launcher
