// SPDX-License-Identifier: MIT OR Apache-2.0
// What a job looks like to PMIx: the keys of PMIx_server_register_nspace, and a rank's environment.
// The set of keys is what Open MPI 4.1 and 5, and clients of other makers, read; types are exact.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <hwloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

// A node of the job as PMIx counts them: only those that hold ranks, which are in rank order.
struct NodeOfJob {
  uint32_t daemon;  // index into Job::nodes
  std::vector<uint32_t> ranks;
};
std::vector<NodeOfJob> nodes_of(const Job& job) {
  std::vector<NodeOfJob> nodes(job.nodes.size());
  for (uint32_t n = 0; n < nodes.size(); ++n) nodes[n].daemon = n;
  for (uint32_t r = 0; r < job.ranks.size(); ++r) nodes[job.ranks[r].node].ranks.push_back(r);
  std::erase_if(nodes, [](const NodeOfJob& node) { return node.ranks.empty(); });
  return nodes;
}

Status check(const Job& job) {
  for (uint32_t r = 0; r < job.ranks.size(); ++r) {
    const auto& place = job.ranks[r];
    if (place.node >= job.nodes.size() || place.app >= job.apps.size())
      return fail(Code::kInternal, fmt::format("rank {} has no node or no app", r));
    if (r > 0 && place.app < job.ranks[r - 1].app)
      return fail(Code::kInternal, fmt::format("rank {} breaks the order of the apps", r));
  }
  if (job.name.empty() || job.name.size() > PMIX_MAX_NSLEN || job.ranks.empty())
    return fail(Code::kInternal, "a job needs a name and a rank");
  return {};
}

// The two maps in libpmix's compressed form.
Status add_maps(const Job& job, const std::vector<NodeOfJob>& nodes, InfoList& infos) {
  std::vector<std::string> names, ranks;
  for (const auto& node : nodes) {
    names.push_back(job.nodes[node.daemon]);
    ranks.push_back(fmt::format("{}", fmt::join(node.ranks, ",")));
  }
  char* node_map = nullptr;
  char* rank_map = nullptr;
  const pmix_status_t first =
      PMIx_generate_regex(fmt::format("{}", fmt::join(names, ",")).c_str(), &node_map);
  const pmix_status_t second =
      PMIx_generate_ppn(fmt::format("{}", fmt::join(ranks, ";")).c_str(), &rank_map);
  if (first == PMIX_SUCCESS && second == PMIX_SUCCESS) {
    infos.regex(PMIX_NODE_MAP, node_map);
    infos.regex(PMIX_PROC_MAP, rank_map);
  }
  std::free(node_map);
  std::free(rank_map);
  if (first != PMIX_SUCCESS) return fail_pmix(first, "PMIx_generate_regex");
  if (second != PMIX_SUCCESS) return fail_pmix(second, "PMIx_generate_ppn");
  return {};
}

// First rank and number of ranks of each app.
struct AppRange {
  uint32_t first = 0, n = 0;
};
std::vector<AppRange> app_ranges(const Job& job) {
  std::vector<AppRange> ranges(job.apps.size());
  for (uint32_t r = 0; r < job.ranks.size(); ++r) {
    auto& range = ranges[job.ranks[r].app];
    if (range.n++ == 0) range.first = r;
  }
  return ranges;
}

void add_apps(const Job& job, InfoList& infos) {
  const auto ranges = app_ranges(job);
  for (uint32_t a = 0; a < job.apps.size(); ++a) {
    InfoList app;
    app.u32(PMIX_APPNUM, a);
    app.u32(PMIX_APP_SIZE, ranges[a].n);
    app.rank(PMIX_APPLDR, ranges[a].first);
    app.text(PMIX_WDIR, job.apps[a].wdir);
    app.text(PMIX_APP_ARGV, fmt::format("{}", fmt::join(job.apps[a].argv, " ")));
    infos.array(PMIX_APP_INFO_ARRAY, app);
  }
}

std::string locality_of(const std::string& cpus) {
  hwloc_bitmap_t bitmap = hwloc_bitmap_alloc();
  std::string text;
  if (bitmap != nullptr && hwloc_bitmap_list_sscanf(bitmap, cpus.c_str()) == 0) {
    pmix_cpuset_t cpuset{const_cast<char*>("hwloc"), bitmap};
    char* locality = nullptr;
    if (PMIx_server_generate_locality_string(&cpuset, &locality) == PMIX_SUCCESS &&
        locality != nullptr)
      text = locality;
    std::free(locality);
  }
  hwloc_bitmap_free(bitmap);
  return text;
}

// Complete for every rank: once one is given, libpmix derives nothing for the others.
void add_ranks(const Job& job, const std::vector<NodeOfJob>& nodes, uint32_t here,
               const std::string& dir, InfoList& infos) {
  const auto ranges = app_ranges(job);
  for (uint32_t n = 0; n < nodes.size(); ++n) {
    uint16_t local_rank = 0;
    for (const uint32_t r : nodes[n].ranks) {
      const auto& place = job.ranks[r];
      InfoList rank;
      rank.rank(PMIX_RANK, r);  // must be first
      rank.u32(PMIX_APPNUM, place.app);
      rank.rank(PMIX_APPLDR, ranges[place.app].first);
      rank.rank(PMIX_APP_RANK, r - ranges[place.app].first);
      rank.rank(PMIX_GLOBAL_RANK, r);
      rank.u16(PMIX_LOCAL_RANK, local_rank);
      rank.u16(PMIX_NODE_RANK, local_rank);
      rank.text(PMIX_HOSTNAME, job.nodes[nodes[n].daemon]);
      rank.u32(PMIX_NODEID, n);
      rank.u32(PMIX_REINCARNATION, 0);
      if (job.parent) rank.flag(PMIX_SPAWNED, true);
      if (nodes[n].daemon == here) {
        rank.text(PMIX_PROCDIR, fmt::format("{}/{}", dir, r));
        if (!place.cpus.empty()) {
          // A plain list: Open MPI parses it as hwloc's, without the "hwloc:" of PMIx.
          rank.text(PMIX_CPUSET, place.cpus);
          rank.text(PMIX_LOCALITY_STRING, locality_of(place.cpus));
        }
      }
      infos.array(PMIX_PROC_DATA, rank);
      ++local_rank;
    }
  }
}

void add_job(const Job& job, size_t n_nodes, const std::vector<uint32_t>& local,
             const std::string& tmpdir, const std::string& dir, InfoList& infos) {
  const auto size = static_cast<uint32_t>(job.ranks.size());
  const uint32_t universe = std::max(job.universe_size, size);
  infos.text(PMIX_JOBID, job.name);
  infos.u32(PMIX_JOB_SIZE, size);
  infos.u32(PMIX_UNIV_SIZE, universe);
  infos.u32(PMIX_MAX_PROCS, universe);
  infos.u32(PMIX_NUM_SLOTS, universe);
  infos.u32(PMIX_JOB_NUM_APPS, static_cast<uint32_t>(job.apps.size()));
  infos.u32(PMIX_NUM_NODES, static_cast<uint32_t>(n_nodes));
  infos.text(PMIX_TMPDIR, tmpdir);
  infos.text(PMIX_NSDIR, dir);
  infos.flag(PMIX_TDIR_RMCLEAN, true);
  infos.flag(PMIX_NODE_OVERSUBSCRIBED, job.oversubscribed);
  if (job.stop_in_init) infos.flag(PMIX_DEBUG_STOP_IN_INIT, true);
  if (!local.empty()) {
    infos.u32(PMIX_LOCAL_SIZE, static_cast<uint32_t>(local.size()));
    infos.u32(PMIX_NODE_SIZE, static_cast<uint32_t>(local.size()));
    infos.text(PMIX_LOCAL_PEERS, fmt::format("{}", fmt::join(local, ",")));
    infos.rank(PMIX_LOCALLDR, local.front());
  }
  if (job.parent) {
    infos.flag(PMIX_SPAWNED, true);
    infos.proc(PMIX_PARENT_ID, *job.parent);
  }
}

// libpmix's thread takes the requests in order, so that waiting for the last one is enough: a
// switch to that thread and back for each rank would cost more than starting it.
Status register_ranks(const Job& job, const std::vector<uint32_t>& local) {
  static std::atomic<pmix_status_t> worst;
  worst = PMIX_SUCCESS;
  const auto note = [](pmix_status_t status, void*) {
    if (status != PMIX_SUCCESS) worst = status;
  };
  for (const uint32_t r : local) {
    const pmix_proc_t proc = from_proc_id({job.name, r});
    const pmix_op_cbfunc_t callback = r == local.back() ? nullptr : +note;
    const pmix_status_t status =
        PMIx_server_register_client(&proc, getuid(), getgid(), nullptr, callback, nullptr);
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) worst = status;
  }
  if (worst != PMIX_SUCCESS) return fail_pmix(worst, "PMIx_server_register_client");
  return {};
}

}  // namespace

Status Server::Impl::register_job(const Job& job) {
  RLX_TRY(check(job));
  if (job.stop_in_init) RLX_TRY(watch_held_ranks());
  // libpmix looks for its own host's name in the map.
  if (options.node >= job.nodes.size() || job.nodes[options.node] != options.hostname)
    return fail(Code::kInternal, fmt::format("node {} of job {} is not {}", options.node, job.name,
                                             options.hostname));
  if (jobs.contains(job.name))
    return fail(Code::kInternal, "job " + job.name + " is registered already");
  // Short: Open MPI makes sockets below it, and a socket's path has at most 107 characters.
  const std::string dir = fmt::format("{}/j{}", options.tmpdir, n_jobs++);
  const auto nodes = nodes_of(job);
  const auto here = std::find_if(nodes.begin(), nodes.end(), [this](const NodeOfJob& node) {
    return node.daemon == options.node;
  });
  const auto local = here != nodes.end() ? here->ranks : std::vector<uint32_t>{};
  if (!local.empty() && ::mkdir(dir.c_str(), 0700) != 0)
    return fail_errno("cannot make the directory " + dir);

  InfoList infos;
  add_job(job, nodes.size(), local, options.tmpdir, dir, infos);
  RLX_TRY(add_maps(job, nodes, infos));
  add_apps(job, infos);
  add_ranks(job, nodes, options.node, dir, infos);
  {
    // Ranks can connect as soon as libpmix knows them.
    const std::lock_guard lock(mutex);
    JobRecord& record = jobs[job.name];
    record.job = job;
    record.dir = dir;
    record.ranks.resize(job.ranks.size());
  }
  const pmix_proc_t proc = from_proc_id({job.name, kAllRanks});
  const pmix_status_t status = PMIx_server_register_nspace(
      proc.nspace, static_cast<int>(local.size()), infos.data(), infos.size(), nullptr, nullptr);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) {
    const std::lock_guard lock(mutex);
    jobs.erase(job.name);
    return fail_pmix(status, "PMIx_server_register_nspace");
  }
  exchange->job_registered(job);
  return register_ranks(job, local);
}

void Server::Impl::deregister_job(std::string_view name) {
  const auto it = jobs.find(name);
  if (it == jobs.end()) return;
  for (uint32_t r = 0; r < it->second.ranks.size(); ++r) owner_ended({it->first, r}, true);
  exchange->job_deregistered(it->first);
  close_pmi1(it->second);
  // Waits: finalizing the library while it still closes sockets makes libevent complain.
  const pmix_proc_t proc = from_proc_id({it->first, kAllRanks});
  PMIx_server_deregister_nspace(proc.nspace, nullptr, nullptr);
  std::error_code error;
  std::filesystem::remove_all(it->second.dir, error);  // else it goes with the server's
  const std::lock_guard lock(mutex);
  jobs.erase(it);
}

}  // namespace rlx::pmix
