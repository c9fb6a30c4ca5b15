// SPDX-License-Identifier: MIT OR Apache-2.0
// Modes of a rank that act on ranks and jobs: abort, control, groups, spawn.
#include <signal.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "pmix_glue/info.h"
#include "test/pmix_glue/rank.h"

namespace rlx::pmix {
namespace {

// Rank 0 ends rank 1 alone.
void abort_one(Bootstrap& b, char**) {
  meet(b);
  pmix_proc_t victim = proc_of(b, 1);
  if (b.facts().rank == 0) check_pmix(PMIx_Abort(5, "only you", &victim, 1), PMIX_SUCCESS, "abort");
  b.watch([](int rank, const std::string& cause) {
    fmt::print("heard {} {}\n", rank, cause);
    std::fflush(stdout);
    ::_exit(0);
  });
  ::pause();
}

char state_of(pid_t pid) {
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), stat);
  const auto end = stat.rfind(") ");
  return end == std::string::npos ? '-' : stat[end + 2];
}

// Rank 0 stops the last rank, lets it go on, sends it a signal and ends it: control kill|terminate.
void control(Bootstrap& b, char** arguments) {
  const int last = b.facts().size - 1;
  static std::atomic<int> n_signals{0};
  ::signal(SIGUSR1, [](int) { ++n_signals; });
  check(b.put(std::to_string(::getpid())), "put");
  check(b.fence(Deadline::after_ms(kLongMs)), "fence");
  if (b.facts().rank == last) {
    while (n_signals == 0) ::usleep(1000);
    InfoList done;
    done.text("signalled", "yes");
    check_pmix(PMIx_Publish(done.data(), done.size()), PMIX_SUCCESS, "publish");
    while (true) ::pause();
  }
  const pid_t pid = std::stoi(*b.get(last));
  const auto until = [pid](const std::string& states, const char* what) {
    const Deadline deadline = Deadline::after_ms(kLongMs);
    while (states.find(state_of(pid)) == std::string::npos) {
      check(!deadline.passed(), what);
      ::usleep(1000);
    }
  };
  const auto ask = [&](int rank, const char* what, int value) {
    InfoList directive;
    directive.integer(what, value);
    const pmix_proc_t whom = proc_of(b, static_cast<pmix_rank_t>(rank));
    return PMIx_Job_control(&whom, 1, directive.data(), directive.size(), nullptr, nullptr);
  };
  if (b.facts().rank == 0) {
    check_pmix(ask(99, PMIX_JOB_CTRL_KILL, 1), PMIX_ERR_NOT_FOUND, "no such rank");
    check_pmix(ask(last, PMIX_JOB_CTRL_SIGNAL, 0), PMIX_ERR_BAD_PARAM, "no signal");
    check_pmix(ask(last, PMIX_JOB_CTRL_CHECKPOINT, 1), PMIX_ERR_NOT_SUPPORTED, "a checkpoint");
    check_pmix(ask(last, PMIX_JOB_CTRL_PAUSE, 1), PMIX_SUCCESS, "pause");
    until("T", "stopped");
    check_pmix(ask(last, PMIX_JOB_CTRL_RESUME, 1), PMIX_SUCCESS, "resume");
    until("SR", "going on");
    check_pmix(ask(last, PMIX_JOB_CTRL_SIGNAL, SIGUSR1), PMIX_SUCCESS, "signal");
    pmix_pdata_t data;
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "signalled");
    InfoList waiting;
    waiting.flag(PMIX_WAIT, true);
    check_pmix(PMIx_Lookup(&data, 1, waiting.data(), waiting.size()), PMIX_SUCCESS, "signalled");
    const bool kill = std::string(arguments[0]) == "kill";
    check_pmix(ask(last, kill ? PMIX_JOB_CTRL_KILL : PMIX_JOB_CTRL_TERMINATE, 1), PMIX_SUCCESS,
               "end");
  }
  until("-", "ended");
  check_pmix(PMIx_Finalize(nullptr, 0), PMIX_SUCCESS, "finalize, without the one that is gone");
}

void group(Bootstrap& b, char**) {
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, b.facts().job_id.c_str(), PMIX_RANK_WILDCARD);
  InfoList infos;
  infos.flag(PMIX_GROUP_ASSIGN_CONTEXT_ID, true);
  pmix_info_t* results = nullptr;
  size_t n = 0;
  check_pmix(PMIx_Group_construct("g", &all, 1, infos.data(), infos.size(), &results, &n),
             PMIX_ERR_NOT_SUPPORTED, "groups are refused");
}

void spawn_and_connect(Bootstrap& b, char**) {
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  pmix_proc_t parent_and_children[2];
  pmix_proc_t us;
  PMIX_LOAD_PROCID(&us, b.facts().job_id.c_str(), PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  const bool child = PMIx_Get(&us, PMIX_PARENT_ID, nullptr, 0, &value) == PMIX_SUCCESS;
  if (child) {
    parent_and_children[0] = *value->data.proc;
    parent_and_children[1] = us;
    check(b.put("child"), "put");
  } else {
    pmix_app_t app;
    PMIX_APP_CONSTRUCT(&app);
    pmix_nspace_t name;
    app.cmd = const_cast<char*>("/nonexistent/program");
    app.maxprocs = 1;
    check_pmix(PMIx_Spawn(nullptr, 0, &app, 1, name), PMIX_ERR_JOB_EXE_NOT_FOUND, "a bad spawn");
    app.cmd = self.data();
    app.maxprocs = 2;
    char* argv[] = {self.data(), const_cast<char*>("spawn"), nullptr};
    app.argv = argv;
    check_pmix(PMIx_Spawn(nullptr, 0, &app, 1, name), PMIX_SUCCESS, "spawn");
    PMIX_LOAD_PROCID(&parent_and_children[0], us.nspace, static_cast<pmix_rank_t>(b.facts().rank));
    PMIX_LOAD_PROCID(&parent_and_children[1], name, PMIX_RANK_WILDCARD);
  }
  check_pmix(PMIx_Connect(parent_and_children, 2, nullptr, 0), PMIX_SUCCESS, "connect");
  check_pmix(PMIx_Disconnect(parent_and_children, 2, nullptr, 0), PMIX_SUCCESS, "disconnect");
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

std::size_t entries_in(const std::string& directory) {
  std::error_code error;
  std::size_t n = 0;
  for (auto it = std::filesystem::recursive_directory_iterator(directory, error);
       !error && it != std::filesystem::recursive_directory_iterator(); it.increment(error))
    ++n;
  return n;
}

// Rank 0 asks for N ranks on a host or anywhere: spawn_on HOST|any N 0|out|host [SCRIPT], the third
// being why it is refused.
void spawn_on(Bootstrap& b, char** arguments) {
  if (b.facts().rank == 0) {
    const std::string host = arguments[0], wanted = arguments[2];
    InfoList where;
    if (host != "any") where.text(PMIX_HOST, host);
    pmix_app_t app;
    PMIX_APP_CONSTRUCT(&app);
    char* script =
        arguments[3] ? arguments[3] : const_cast<char*>("echo spawned on h$RLX_NODE_RANK");
    char* argv[] = {const_cast<char*>("sh"), const_cast<char*>("-c"), script, nullptr};
    app.cmd = argv[0];
    app.argv = argv;
    app.maxprocs = std::atoi(arguments[1]);
    app.info = where.data();
    app.ninfo = where.size();
    pmix_nspace_t name;
    check_pmix(PMIx_Spawn(nullptr, 0, &app, 1, name),
               wanted == "0"     ? PMIX_SUCCESS
               : wanted == "out" ? PMIX_ERR_OUT_OF_RESOURCE
                                 : PMIX_ERR_JOB_ALLOC_FAILED,
               "spawn");
  }
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

// Our parent is the launcher: jobs that have ended leave it no open file and no directory.
void spawn_often(Bootstrap& b, char**) {
  const auto held = [] {
    return std::pair(entries_in(fmt::format("/proc/{}/fd", ::getppid())),
                     entries_in(std::getenv("PMIX_SERVER_TMPDIR") + std::string("/..")));
  };
  pmix_app_t app;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = const_cast<char*>("/bin/true");
  app.maxprocs = 2;
  const auto before = held();
  for (int i = 0; i < 50; ++i) {
    pmix_nspace_t name;
    check_pmix(PMIx_Spawn(nullptr, 0, &app, 1, name), PMIX_SUCCESS, "spawn");
  }
  const Deadline deadline = Deadline::after_ms(kLongMs);
  while (held() > before) {
    check(!deadline.passed(),
          fmt::format("files {} then {}, in directories {} then {}", before.first, held().first,
                      before.second, held().second));
    ::usleep(10000);
  }
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

}  // namespace

const std::vector<Mode> kJobModes = {
    {"abort_one", abort_one},     {"control", control},   {"group", group},
    {"spawn", spawn_and_connect}, {"spawn_on", spawn_on}, {"spawn_often", spawn_often},
};

}  // namespace rlx::pmix
