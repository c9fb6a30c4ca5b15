// SPDX-License-Identifier: MIT OR Apache-2.0
// A rank for tests of the PMIx server: `rank MODE [ARG]`. Exits with 0 when all went as the mode
// expects.
#include <fmt/core.h>
#include <pmix.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
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

// Rank 1 ends as `how` says in `phase`; the others print what they learn.
void death(const std::string& phase, const std::string& how) {
  const bool dies = std::string(std::getenv("PMIX_RANK")) == "1";
  if (dies && phase == "before_init") die(how);
  auto b = open_bootstrap();
  check(b.has_value(), "init");
  if (dies && phase == "before_fence") die(how);
  check((*b)->put(blob_of((*b)->facts().rank)), "put");
  if (phase != "in_fence" || !dies) {
    const Status fenced = (*b)->fence(Deadline::after_ms(kLongMs));
    if (!fenced) {
      say_and_wait(fenced.error());
    }
  } else {
    // Enter the fence, then die inside.
    ::alarm(1);
    ::signal(
        SIGALRM,
        how == "kill" ? [](int) { ::kill(::getpid(), SIGKILL); } : [](int) { ::_exit(3); });
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, std::getenv("PMIX_NAMESPACE"), PMIX_RANK_WILDCARD);
    PMIx_Fence(&all, 1, nullptr, 0);
    PMIx_Fence(&all, 1, nullptr, 0);
    ::pause();
  }
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
  char* unknown[] = {const_cast<char*>("pmix.qry.unheard.of"), nullptr};
  query.keys = unknown;
  check(PMIx_Query_info(&query, 1, &infos, &n) < 0, "an unknown question is refused");
  meet(b);
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
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
  if (mode == "late") late(b);
  if (mode == "half_in") half_in(b);
  if (mode == "names") publish_and_lookup(b);
  if (mode == "log") log_and_query(b);
  if (mode == "group") group(b);
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
