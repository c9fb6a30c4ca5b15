// SPDX-License-Identifier: MIT OR Apache-2.0
// Modes of a rank that ask the server for its services: names, questions, data, fences, events.
#include <atomic>
#include <cstring>
#include <map>

#include "pmix_glue/info.h"
#include "test/pmix_glue/rank.h"

namespace rlx::pmix {
namespace {

void publish_and_lookup(Bootstrap& b, char**) {
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

void log_and_query(Bootstrap& b, char**) {
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

pmix_status_t get_blob(const Bootstrap& b, int rank, int timeout_s = 0) {
  const pmix_proc_t proc = proc_of(b, static_cast<pmix_rank_t>(rank));
  InfoList infos;
  if (timeout_s > 0) infos.integer(PMIX_TIMEOUT, timeout_s);
  pmix_value_t* value = nullptr;
  return PMIx_Get(&proc, "rlx.blob.1", infos.data(), infos.size(), &value);
}

// Blobs are read without a fence: whoever reads early waits. The last rank puts nothing, then dies.
void read_directly(Bootstrap& b, char**) {
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
void sets(Bootstrap& b, char**) {
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
void events(Bootstrap& b, char**) {
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
void timed(Bootstrap& b, char**) {
  if (b.facts().rank % 2 == 0) fence_that_time_ends(b);
  ::pause();
}

// The last rank alone stays away: the others of its node and those of other nodes hear the same.
void last_stays_away(Bootstrap& b, char**) {
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

}  // namespace

const std::vector<Mode> kServiceModes = {
    {"names", publish_and_lookup},
    {"log", log_and_query},
    {"direct", read_directly},
    {"sets", sets},
    {"events", events},
    {"timed", timed},
    {"last_stays_away", last_stays_away},
};

}  // namespace rlx::pmix
