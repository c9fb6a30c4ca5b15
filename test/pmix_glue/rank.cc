// SPDX-License-Identifier: MIT OR Apache-2.0
// A rank for tests of the PMIx server: `rank MODE [ARG]`. Exits with 0 when all went as the mode
// expects.
#include <fmt/core.h>
#include <pmix.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "pmix_glue/client.h"
#include "pmix_glue/info.h"
#include "pmix_glue/local.h"

using namespace rlx;
using namespace rlx::pmix;

namespace {

constexpr int kLongMs = 30000;

void check(bool good, const std::string& what) {
  if (good) return;
  fmt::print(stderr, "FAILED {}\n", what);
  std::exit(9);
}
void check(const Status& status, const std::string& what) {
  check(status.has_value(), what + ": " + (status ? "" : status.error().text));
}
void check_pmix(pmix_status_t status, pmix_status_t wanted, const std::string& what) {
  check(status == wanted,
        fmt::format("{}: {}, not {}", what, PMIx_Error_string(status), PMIx_Error_string(wanted)));
}

std::string blob_of(int rank) { return std::string("a\0b", 3) + std::to_string(rank); }

// Prints facts, meets everyone, checks every blob.
void meet(Bootstrap& b) {
  check(b.put(blob_of(b.facts().rank)), "put");
  check(b.fence(Deadline::after_ms(kLongMs)), "fence");
  for (int r = 0; r < b.facts().size; ++r) {
    const auto got = b.get(r);
    check(got && *got == blob_of(r), fmt::format("get {}", r));
  }
}

void plain(Bootstrap& b) {
  const auto& f = b.facts();
  std::string locals;
  for (const int r : f.local_ranks) locals += fmt::format("{},", r);
  fmt::print("rank {} of {} source {} locals {}\n", f.rank, f.size, f.source, locals);
  meet(b);
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

// Blobs that travel in several pieces.
void meet_with_much(Bootstrap& b) {
  const auto blob = [](int rank) {
    std::string bytes;
    for (uint32_t i = 0; bytes.size() < 200000; ++i) bytes += std::to_string(i * 7 + rank);
    return bytes;
  };
  check(b.put(blob(b.facts().rank)), "put");
  check(b.fence(Deadline::after_ms(kLongMs)), "fence");
  for (int r = 0; r < b.facts().size; ++r) {
    const auto got = b.get(r);
    check(got && *got == blob(r), fmt::format("get {}", r));
  }
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

[[noreturn]] void die(const std::string& how) {
  if (how == "kill") ::kill(::getpid(), SIGKILL);
  if (how == "exit3") ::_exit(3);
  ::_exit(0);
}

// Alive until the test has seen it, so that nobody takes this end for the first.
[[noreturn]] void say_and_wait(const Error& error) {
  fmt::print("error {}: {}\n", code_name(error.code), error.text);
  std::fflush(stdout);
  while (true) ::pause();
}

// The rank that dies is in the fence, rank 0 too; the others come when they know of it.
[[noreturn]] void die_in_fence(Bootstrap& b, bool dies, const std::string& how) {
  static std::atomic<bool> heard{false};
  if (dies) {
    ::signal(
        SIGALRM,
        how == "kill" ? [](int) { ::kill(::getpid(), SIGKILL); } : [](int) { ::_exit(3); });
    ::alarm(1);
  } else if (b.facts().rank != 0) {
    b.watch([](int, const std::string&) { heard = true; });
    while (!heard) ::usleep(1000);
  }
  const Status fenced = b.fence(Deadline::after_ms(kLongMs));
  check(!fenced, "an error of the fence");
  say_and_wait(fenced.error());
}

// Rank 1 ends as `how` says in `phase`; the others print what they learn.
void death(const std::string& phase, const std::string& how) {
  const bool dies = std::string(std::getenv("PMIX_RANK")) == "1";
  if (dies && phase == "before_init") die(how);
  auto b = open_bootstrap();
  check(b.has_value(), "init");
  if (dies && phase == "before_fence") die(how);
  check((*b)->put(blob_of((*b)->facts().rank)), "put");
  if (phase == "in_fence") die_in_fence(**b, dies, how);
  if (const Status fenced = (*b)->fence(Deadline::after_ms(kLongMs)); !fenced)
    say_and_wait(fenced.error());
  if (dies && phase == "after_fence") die(how);
  const Status done = (*b)->finalize(Deadline::after_ms(kLongMs));
  if (!done) say_and_wait(done.error());
}

// Two of three ranks enter a fence that cannot end; all say so and wait to be killed.
void half_in(Bootstrap& b) {
  check(b.put("x"), "put");
  fmt::print("in\n");
  std::fflush(stdout);
  if (b.facts().rank % 3 != 0) (void)b.fence(Deadline::never());
  ::pause();
}

void late(Bootstrap& b) {
  if (b.facts().rank == 1) ::pause();
  check(b.put("x"), "put");
  const Status fenced = b.fence(Deadline::after_ms(500));
  check(!fenced && fenced.error().code == Code::kTimeout, "a deadline");
  fmt::print("{}\n", fenced.error().text);
  std::fflush(stdout);
  ::pause();
}

void publish_and_lookup(Bootstrap& b) {
  pmix_pdata_t data;
  PMIX_PDATA_CONSTRUCT(&data);
  const auto lookup = [&](const char* key, InfoList& infos) {
    PMIX_LOAD_KEY(data.key, key);
    return PMIx_Lookup(&data, 1, infos.data(), infos.size());
  };
  InfoList none, waiting, brief;
  waiting.flag(PMIX_WAIT, true);
  brief.flag(PMIX_WAIT, true);
  brief.integer(PMIX_TIMEOUT, 1);
  if (b.facts().rank == 0) {
    check_pmix(lookup("nobody", none), PMIX_ERR_NOT_FOUND, "a missing name");
    check_pmix(lookup("nobody", brief), PMIX_ERR_TIMEOUT, "a name never published");
    // Published by rank 1 only after rank 0 tells it to, so this one is parked or answered at once.
    InfoList go;
    go.text("go", "now");
    check_pmix(PMIx_Publish(go.data(), go.size()), PMIX_SUCCESS, "publish");
    check_pmix(PMIx_Publish(go.data(), go.size()), PMIX_ERR_DUPLICATE_KEY, "publish twice");
    check_pmix(lookup("port", waiting), PMIX_SUCCESS, "a parked lookup");
    check(data.proc.rank == 1 && data.value.type == PMIX_STRING &&
              std::string(data.value.data.string) == "77",
          "value and owner");
    check_pmix(lookup("port", none), PMIX_ERR_NOT_FOUND, "read once only");
    check_pmix(PMIx_Unpublish(nullptr, nullptr, 0), PMIX_SUCCESS, "unpublish all");
    check_pmix(lookup("go", none), PMIX_ERR_NOT_FOUND, "unpublished");
  } else if (b.facts().rank == 1) {
    check_pmix(lookup("go", waiting), PMIX_SUCCESS, "wait for go");
    InfoList port;
    const pmix_persistence_t once = PMIX_PERSIST_FIRST_READ;
    port.text("port", "77");
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, &once, PMIX_PERSIST);
    port.value(PMIX_PERSISTENCE, value);
    check_pmix(PMIx_Publish(port.data(), port.size()), PMIX_SUCCESS, "publish");
  }
  meet(b);
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

void log_and_query(Bootstrap& b) {
  InfoList line;
  line.text(PMIX_LOG_STDERR, "a line to log");
  check_pmix(PMIx_Log(line.data(), line.size(), nullptr, 0), PMIX_SUCCESS, "log");
  InfoList mail;
  mail.text(PMIX_LOG_SYSLOG, "nobody reads this");
  check_pmix(PMIx_Log(mail.data(), mail.size(), nullptr, 0), PMIX_ERR_NOT_SUPPORTED, "system log");
  meet(b);  // after it all processes are known
  pmix_query_t query;
  PMIX_QUERY_CONSTRUCT(&query);
  char* keys[] = {const_cast<char*>(PMIX_QUERY_PROC_TABLE), nullptr};
  query.keys = keys;
  InfoList about;
  about.text(PMIX_NSPACE, b.facts().job_id);
  query.qualifiers = about.data();
  query.nqual = about.size();
  pmix_info_t* infos = nullptr;
  size_t n = 0;
  check_pmix(PMIx_Query_info(&query, 1, &infos, &n), PMIX_SUCCESS, "query");
  const auto* table = find(infos, n, PMIX_QUERY_PROC_TABLE);
  check(table != nullptr && table->type == PMIX_DATA_ARRAY &&
            static_cast<int>(table->data.darray->size) == b.facts().size,
        "a process table");
  const auto* entries = static_cast<const pmix_proc_info_t*>(table->data.darray->array);
  check(entries[b.facts().rank].pid == ::getpid(), "our own pid in it");
  for (int r = 0; r < b.facts().size; ++r)
    check(entries[r].proc.rank == static_cast<pmix_rank_t>(r) && entries[r].pid > 0, "all pids");
  char* unknown[] = {const_cast<char*>("pmix.qry.unheard.of"), nullptr};
  query.keys = unknown;
  check(PMIx_Query_info(&query, 1, &infos, &n) < 0, "an unknown question is refused");
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

pmix_proc_t proc_of(const Bootstrap& b, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, b.facts().job_id.c_str(), rank);
  return proc;
}

pmix_status_t get_blob(const Bootstrap& b, int rank, int timeout_s = 0) {
  const pmix_proc_t proc = proc_of(b, static_cast<pmix_rank_t>(rank));
  InfoList infos;
  if (timeout_s > 0) infos.integer(PMIX_TIMEOUT, timeout_s);
  pmix_value_t* value = nullptr;
  return PMIx_Get(&proc, "rlx.blob.1", infos.data(), infos.size(), &value);
}

// Blobs are read without a fence: whoever reads early waits. The last rank puts nothing, then dies.
void read_directly(Bootstrap& b) {
  const auto& f = b.facts();
  const int last = f.size - 1;
  if (f.rank == last) {
    check_pmix(get_blob(b, 0), PMIX_SUCCESS, "read rank 0's");
    fmt::print("read\n");
    std::fflush(stdout);
    ::usleep(1500000);  // others wait for us by now
    ::_exit(3);
  }
  if (f.rank == 1) check_pmix(get_blob(b, last, 1), PMIX_ERR_TIMEOUT, "a time limit");
  check(b.put(blob_of(f.rank)), "put");
  for (int r = 0; r < last; ++r)
    check_pmix(get_blob(b, r), PMIX_SUCCESS, fmt::format("read {}", r));
  const pmix_status_t dead = get_blob(b, last);
  check(dead != PMIX_SUCCESS, "nothing of who died");
  fmt::print("done {}\n", PMIx_Error_string(dead));
  std::fflush(stdout);
  ::pause();
}

// Fences over different sets at once, each several times.
void sets(Bootstrap& b) {
  check(b.put(blob_of(b.facts().rank)), "put");
  const auto rank = static_cast<pmix_rank_t>(b.facts().rank);
  pmix_proc_t pair[2] = {proc_of(b, rank & ~1u), proc_of(b, rank | 1u)};
  pmix_proc_t all = proc_of(b, PMIX_RANK_WILDCARD);
  InfoList collect;
  collect.flag(PMIX_COLLECT_DATA, true);
  static std::atomic<int> n_done{0};
  const auto done = [](pmix_status_t status, void*) {
    check_pmix(status, PMIX_SUCCESS, "a fence");
    ++n_done;
  };
  for (int round = 0; round < 5; ++round) {
    check_pmix(PMIx_Fence_nb(&all, 1, collect.data(), collect.size(), done, nullptr), PMIX_SUCCESS,
               "begin");
    for (int i = 0; i <= round; ++i)
      check_pmix(PMIx_Fence(pair, 2, nullptr, 0), PMIX_SUCCESS, "fence of two");
    while (n_done <= round) ::usleep(1000);
  }
  for (int r = 0; r < b.facts().size; ++r) check(b.get(r).has_value(), "get");
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

// An event of rank 0 for all ranks of the job.
void events(Bootstrap& b) {
  static std::atomic<int> n_heard{0};
  pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 7;
  const auto hear = [](size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t infos[],
                       size_t n, pmix_info_t[], size_t, pmix_event_notification_cbfunc_fn_t done,
                       void* context) {
    check(source->rank == 0 && text(find(infos, n, "news")) == "good", "source and data");
    ++n_heard;
    done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
  };
  if (b.facts().rank != 0)
    check(PMIx_Register_event_handler(&code, 1, nullptr, 0, hear, nullptr, nullptr) >= 0,
          "register");
  meet(b);
  if (b.facts().rank == 0) {
    const pmix_proc_t me = proc_of(b, 0);
    InfoList infos;
    infos.text("news", "good");
    const pmix_status_t status = PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, infos.data(),
                                                   infos.size(), nullptr, nullptr);
    check(status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED, "notify");
  }
  while (b.facts().rank != 0 && n_heard == 0) ::usleep(1000);
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
  check(b.facts().rank == 0 || n_heard == 1, "heard once");
}

void fence_that_time_ends(Bootstrap& b) {
  const pmix_proc_t all = proc_of(b, PMIX_RANK_WILDCARD);
  InfoList infos;
  infos.integer(PMIX_TIMEOUT, 1);
  check_pmix(PMIx_Fence(&all, 1, infos.data(), infos.size()), PMIX_ERR_TIMEOUT, "a time limit");
  fmt::print("timed out\n");
  std::fflush(stdout);
}

// Ranks of odd number never come to the fence.
void timed(Bootstrap& b) {
  if (b.facts().rank % 2 == 0) fence_that_time_ends(b);
  ::pause();
}

// The last rank alone stays away: the others of its node and those of other nodes hear the same.
void last_stays_away(Bootstrap& b) {
  meet(b);
  if (b.facts().rank != b.facts().size - 1) {
    fence_that_time_ends(b);
  } else {
    pmix_pdata_t data;
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, "nobody");
    InfoList brief;
    brief.flag(PMIX_WAIT, true);
    brief.integer(PMIX_TIMEOUT, 3);
    check_pmix(PMIx_Lookup(&data, 1, brief.data(), brief.size()), PMIX_ERR_TIMEOUT, "waiting");
  }
  check_pmix(PMIx_Finalize(nullptr, 0), PMIX_SUCCESS, "finalize");
}

// Rank 0 ends rank 1 alone.
void abort_one(Bootstrap& b) {
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

// Odd ranks stay away, even ones learn in the fence that they are gone.
void survive(Bootstrap& b) {
  check(b.put("x"), "put");
  fmt::print("in\n");
  std::fflush(stdout);
  if (b.facts().rank % 2 != 0) ::pause();
  const Status fenced = b.fence(Deadline::after_ms(kLongMs));
  check(!fenced, "an error");
  say_and_wait(fenced.error());
}

// A wire finds rank 1 gone, which no server can see: where the launcher does not end the job, the
// library does.
void widowed(Bootstrap& b) {
  meet(b);
  if (b.facts().rank == 1) ::pause();
  b.peer_failed(1, "no sign of life");
  const Status done = b.finalize(Deadline::after_ms(kLongMs));
  fmt::print("finalize: {}\n", done ? "good" : done.error().text);
  std::fflush(stdout);
  ::pause();
}

char state_of(pid_t pid) {
  std::string stat;
  std::getline(std::ifstream(fmt::format("/proc/{}/stat", pid)), stat);
  const auto end = stat.rfind(") ");
  return end == std::string::npos ? '-' : stat[end + 2];
}

// Rank 0 stops the last rank, lets it go on, sends it a signal and ends it: `how`.
void control(Bootstrap& b, const char* how) {
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
    const bool kill = std::string(how) == "kill";
    check_pmix(ask(last, kill ? PMIX_JOB_CTRL_KILL : PMIX_JOB_CTRL_TERMINATE, 1), PMIX_SUCCESS,
               "end");
  }
  until("-", "ended");
  check_pmix(PMIx_Finalize(nullptr, 0), PMIX_SUCCESS, "finalize, without the one that is gone");
}

void group(Bootstrap& b) {
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, b.facts().job_id.c_str(), PMIX_RANK_WILDCARD);
  InfoList infos;
  infos.flag(PMIX_GROUP_ASSIGN_CONTEXT_ID, true);
  pmix_info_t* results = nullptr;
  size_t n = 0;
  check_pmix(PMIx_Group_construct("g", &all, 1, infos.data(), infos.size(), &results, &n),
             PMIX_ERR_NOT_SUPPORTED, "groups are refused");
}

void spawn_and_connect(Bootstrap& b, const char* self) {
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
    app.cmd = const_cast<char*>(self);
    app.maxprocs = 2;
    char* argv[] = {const_cast<char*>(self), const_cast<char*>("spawn"), nullptr};
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

// Rank 0 asks for N ranks on a host or anywhere: spawn_on HOST|any N 0|out|host, the last being why
// it is refused.
void spawn_on(Bootstrap& b, char** arguments) {
  if (b.facts().rank == 0) {
    const std::string host = arguments[0], wanted = arguments[2];
    InfoList where;
    if (host != "any") where.text(PMIX_HOST, host);
    pmix_app_t app;
    PMIX_APP_CONSTRUCT(&app);
    char* argv[] = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                    const_cast<char*>("echo spawned on h$RLX_NODE_RANK"), nullptr};
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
void spawn_often(Bootstrap& b) {
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

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "plain";
  if (mode == "death") {
    death(argv[2], argv[3]);
    return 0;
  }
  auto opened = open_bootstrap();
  check(opened.has_value(), opened ? "" : opened.error().text);
  Bootstrap& b = **opened;
  if (mode == "plain") plain(b);
  if (mode == "much") meet_with_much(b);
  if (mode == "late") late(b);
  if (mode == "half_in") half_in(b);
  if (mode == "names") publish_and_lookup(b);
  if (mode == "log") log_and_query(b);
  if (mode == "group") group(b);
  if (mode == "widowed") widowed(b);
  if (mode == "direct") read_directly(b);
  if (mode == "sets") sets(b);
  if (mode == "events") events(b);
  if (mode == "timed") timed(b);
  if (mode == "last_stays_away") last_stays_away(b);
  if (mode == "abort_one") abort_one(b);
  if (mode == "survive") survive(b);
  if (mode == "control") control(b, argv[2]);
  if (mode == "spawn_often") spawn_often(b);
  if (mode == "spawn_on") spawn_on(b, argv + 2);
  if (mode == "spawn") spawn_and_connect(b, argv[0]);
  if (mode == "abort") {
    meet(b);
    if (b.facts().rank == 1) b.abort(7, "for a test");
    ::pause();
  }
  if (mode == "lost") {
    ::alarm(30);  // nobody is left to end us
    b.watch([](int rank, const std::string& cause) {
      fmt::print("heard {} {}\n", rank, cause);
      std::fflush(stdout);
      ::_exit(0);
    });
    meet(b);
    fmt::print("ready\n");
    std::fflush(stdout);
    ::pause();
  }
  return 0;
}
