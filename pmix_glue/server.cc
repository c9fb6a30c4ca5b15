// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/server.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <hwloc.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/single_rounds.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

// Variables that change what libpmix's server does, left by a launcher that started us. The user's
// own PMIX_MCA_* stay.
void clean_own_environment() {
  std::vector<std::string> names;
  for (char** e = environ; e != nullptr && *e != nullptr; ++e) {
    const std::string_view entry(*e);
    const auto name = entry.substr(0, entry.find('='));
    if (belongs_to_a_launcher(name)) names.emplace_back(name);
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
}

// Discovery of processors and caches only, without the device plug-ins: a third of the time.
Result<hwloc_topology*> discover() {
  hwloc_topology* topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return fail(Code::kNoMemory, "hwloc cannot start");
  if (hwloc_topology_load(topology) != 0) {
    hwloc_topology_destroy(topology);
    return fail_errno("hwloc cannot read the topology of this machine");
  }
  return topology;
}

std::string random_hex(size_t n_bytes) {
  std::string bytes(n_bytes, '\0');
  // Never short for so few bytes, and blocks only in early boot.
  if (::getrandom(bytes.data(), n_bytes, 0) != static_cast<ssize_t>(n_bytes)) std::abort();
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

}  // namespace

std::string new_job_name() { return "rlx-" + random_hex(16); }

bool belongs_to_a_launcher(std::string_view name) {
  if (name.starts_with("PMIX_MCA_")) return false;
  for (const std::string_view prefix :
       {"PMIX_", "PRTE_", "PMI_", "HYDI_", "HYDRA_CONTROL", "JSM_", "OMPI_MCA_orte_",
        "OMPI_MCA_ess", "OMPI_COMM_WORLD_", "OMPI_UNIVERSE_", "OMPI_APP_CTX_", "OMPI_FILE_LOCATION",
        "OMPI_NUM_APP_CTX", "OMPI_FIRST_RANKS", "OMPI_ARGV", "OMPI_COMMAND", "OMPI_PARENT_PORT",
        "MPI_LOCALRANKID", "MPI_LOCALNRANKS"})
    if (name.starts_with(prefix)) return true;
  return false;
}

Server::Impl::~Impl() {
  if (own_topology != nullptr) hwloc_topology_destroy(own_topology);
}

RankRecord* Server::Impl::find(const ProcId& rank) {
  return const_cast<RankRecord*>(std::as_const(*this).find(rank));
}

const RankRecord* Server::Impl::find(const ProcId& rank) const {
  const auto job = jobs.find(rank.job);
  if (job == jobs.end() || rank.rank >= job->second.ranks.size()) return nullptr;
  return &job->second.ranks[rank.rank];
}

namespace {

// libpmix's threads get no signals: not those the launcher reads, and not SIGPIPE when a rank is
// gone.
class AllSignalsBlocked {
 public:
  AllSignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllSignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AllSignalsBlocked(const AllSignalsBlocked&) = delete;
  AllSignalsBlocked& operator=(const AllSignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

// libpmix listens on 127.0.0.1, and prints a screenful when it cannot.
bool loopback_is_up() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return true;  // let libpmix find out
  bool up = false;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next)
    up |= (i->ifa_flags & IFF_LOOPBACK) != 0 && (i->ifa_flags & IFF_UP) != 0 &&
          i->ifa_addr != nullptr && i->ifa_addr->sa_family == AF_INET;
  ::freeifaddrs(list);
  return up;
}

// libpmix and its libevent want about a dozen, and end the process where they get none.
bool has_spare_descriptors() {
  constexpr int kWanted = 20;
  std::vector<Fd> spare;
  while (spare.size() < kWanted) {
    spare.emplace_back(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!spare.back()) return false;
  }
  return true;
}

// What libpmix says by itself ("send_msg: write failed") would stand among the output of ranks, and
// what matters comes to us as a status.
void silence_library() {
  if (log::enabled(log::Level::info)) return;
  static const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) ::setenv("PMIX_OUTPUT_STDERR_FD", std::to_string(null).c_str(), 1);
}

pmix_status_t init_library(Server::Impl* impl) {
  const AllSignalsBlocked blocked;  // threads inherit it
  const std::string dir = impl->options.tmpdir + "/pmix";
  InfoList infos;
  infos.text(PMIX_SERVER_TMPDIR, dir);
  infos.text(PMIX_SYSTEM_TMPDIR, dir);
  infos.text(PMIX_SERVER_NSPACE, new_job_name() + "-d");
  infos.rank(PMIX_SERVER_RANK, impl->options.node);
  infos.text(PMIX_HOSTNAME, impl->options.hostname);
  infos.flag(PMIX_HOSTNAME_KEEP_FQDN, true);
  pmix_topology_t topology{const_cast<char*>("hwloc:" HWLOC_VERSION), impl->topology()};
  infos.topology(PMIX_TOPOLOGY2, &topology);
  pmix_server_module_t module = upcall_module();
  return PMIx_server_init(&module, infos.data(), infos.size());
}

}  // namespace

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options) {
  return start(options, std::make_unique<OneHost>());
}

Result<std::unique_ptr<Server>> Server::start(const ServerOptions& options,
                                              std::unique_ptr<Exchange> exchange) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->exchange = std::move(exchange);
  impl->exchange->set_home(impl.get());
  RLX_TRY(impl->shift.open());
  if (options.topology == nullptr) {
    RLX_TRY_ASSIGN(impl->own_topology, discover());
  }
  const std::string dir = options.tmpdir + "/pmix";
  if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
    return fail_errno("cannot make the directory " + dir);
  if (!loopback_is_up())
    return fail(Code::kSystem,
                "the loopback interface is down, and the PMIx server of this host listens on "
                "127.0.0.1: ip link set lo up");
  if (!has_spare_descriptors())
    return fail(Code::kSystem,
                "this process can open too few files for a PMIx server (ulimit -n?)");
  if (!enter_single_rounds())
    log::warn("this program does not export its epoll_wait: ranks that die together may crash it");
  clean_own_environment();
  silence_library();
  // Job data in memory: the default keeps it in files of 4 MiB a job and takes 40 ms longer.
  ::setenv("PMIX_MCA_gds", "hash", 0);
  // Tell of broken connections at once, not in batches every second.
  ::setenv("PMIX_MCA_pmix_event_caching_window", "0", 0);
  upcall_target = impl.get();
  const pmix_status_t status = init_library(impl.get());
  if (status != PMIX_SUCCESS) {
    upcall_target = nullptr;
    auto failed = fail_pmix(status, "PMIx_server_init");
    failed.value().text += "; it may start no thread or open no file: see ulimit -u and ulimit -n";
    return failed;
  }
  auto server = std::unique_ptr<Server>(new Server(std::move(impl)));
  RLX_TRY(watch_connections());
  return server;
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

namespace {

// Removes what clients have registered for removal, and stops libpmix's threads. False where it
// does not come back: libpmix 4.2 locks what it has freed where a rank died while it connected.
bool finalize_library() {
  constexpr std::chrono::milliseconds kPatience{500};  // it takes 2
  const AllSignalsBlocked blocked;                     // the thread inherits it
  std::promise<void> done;
  const auto ended = done.get_future();
  std::thread([done = std::move(done)]() mutable {
    PMIx_server_finalize();
    done.set_value();
  }).detach();
  return ended.wait_for(kPatience) == std::future_status::ready;
}

}  // namespace

Server::~Server() {
  while (!impl_->jobs.empty()) deregister_job(impl_->jobs.begin()->first);
  if (finalize_library()) {
    upcall_target = nullptr;
  } else {
    log::info("PMIx_server_finalize does not come back: its threads are left behind");
    [[maybe_unused]] const Impl* left_behind = impl_.release();  // they may still call it
  }
}

int Server::fd() const { return impl_->shift.fd(); }

void Server::dispatch(Host& host) {
  impl_->host = &host;
  impl_->shift.run();
  impl_->host = nullptr;
}

Status Server::register_job(const Job& job) { return impl_->register_job(job); }
void Server::release() { impl_->release(); }
void Server::deregister_job(std::string_view name) { impl_->deregister_job(name); }

Result<ChildSetup> Server::environment(const ProcId& rank, const std::vector<std::string>& base,
                                       Protocol protocol) {
  return impl_->environment(rank, base, protocol);
}

void Server::rank_started(const ProcId& rank, pid_t pid) {
  if (RankRecord* record = impl_->find(rank)) record->pid = pid;
}

RankState Server::state(const ProcId& rank) const {
  const std::lock_guard lock(impl_->mutex);
  const RankRecord* record = impl_->find(rank);
  return record != nullptr ? record->state : RankState{};
}

bool Server::is_in_fence(const ProcId& rank) const {
  return std::any_of(impl_->waiting.begin(), impl_->waiting.end(),
                     [&](const auto& entry) { return covers(entry.second.procs, rank); });
}

bool Server::is_in_barrier(const ProcId& rank) const {
  const auto job = impl_->jobs.find(rank.job);
  return job != impl_->jobs.end() && job->second.pmi1 && job->second.pmi1->is_in_barrier(rank.rank);
}

void Server::rank_ended(const ProcId& rank, const Ending& ending) {
  const RankRecord* record = impl_->find(rank);
  if (record == nullptr || record->ending) return;
  Ending whole = ending;
  const RankState seen = state(rank);
  if (!ending.is_failure() && seen.connected && !seen.finalized)
    whole.kind = Ending::Kind::kUnfinalized;
  impl_->end_rank(rank, whole);
  if (impl_->jobs.find(rank.job)->second.job.ranks[rank.rank].node != impl_->options.node) return;
  impl_->owner_ended(rank, whole.is_failure());
  impl_->exchange->ended(rank, whole);
}

void Server::spawned(uint64_t id, const Result<std::string>& job) {
  const auto it = impl_->spawnings.find(id);
  if (it == impl_->spawnings.end()) return;
  const auto spawning = it->second;
  impl_->spawnings.erase(it);
  pmix_nspace_t name;
  PMIX_LOAD_NSPACE(name, job ? job->c_str() : nullptr);
  if (job) {
    spawning.callback(PMIX_SUCCESS, name, spawning.context);
    return;
  }
  const Code code = job.error().code;
  const pmix_status_t status = code == Code::kNoMemory      ? PMIX_ERR_OUT_OF_RESOURCE
                               : code == Code::kUnreachable ? PMIX_ERR_JOB_ALLOC_FAILED
                               : code == Code::kInvalid     ? PMIX_ERR_JOB_EXE_NOT_FOUND
                                                            : PMIX_ERR_JOB_FAILED_TO_LAUNCH;
  spawning.callback(status, name, spawning.context);
}

}  // namespace rlx::pmix
