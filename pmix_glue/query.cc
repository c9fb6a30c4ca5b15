// SPDX-License-Identifier: MIT OR Apache-2.0
// Questions about jobs: their names, and the processes of one.
#include <pmix.h>
#include <pmix_server.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"

namespace rlx::pmix {
namespace {

struct Question {
  std::string key;
  std::string job;  // the PMIX_NSPACE it is about, if any
};

pmix_proc_state_t state_of(const RankRecord& rank) {
  if (rank.ending)
    return rank.ending->kind == Ending::Kind::kSignaled ? PMIX_PROC_STATE_ABORTED_BY_SIG
                                                        : PMIX_PROC_STATE_TERMINATED;
  return rank.state.connected ? PMIX_PROC_STATE_CONNECTED : PMIX_PROC_STATE_RUNNING;
}

// `rows` are by rank.
pmix_value_t process_table(const Job& job, const std::vector<Process>& rows) {
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_DATA_ARRAY;
  PMIX_DATA_ARRAY_CREATE(value.data.darray, rows.size(), PMIX_PROC_INFO);
  auto* entries = static_cast<pmix_proc_info_t*>(value.data.darray->array);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& place = job.ranks[rows[i].rank];
    const auto& argv = job.apps[place.app].argv;
    entries[i].proc = from_proc_id({job.name, rows[i].rank});
    entries[i].hostname = ::strdup(job.nodes[place.node].c_str());
    entries[i].executable_name = ::strdup(argv.empty() ? "" : argv[0].c_str());
    entries[i].pid = static_cast<pid_t>(rows[i].pid);
    entries[i].exit_code = rows[i].exit_code;
    entries[i].state = static_cast<pmix_proc_state_t>(rows[i].state);
  }
  return value;
}

struct Answer {
  pmix_info_t* infos;
  size_t n;
};

void release_answer(void* context) {
  auto* answer = static_cast<Answer*>(context);
  PMIX_INFO_FREE(answer->infos, answer->n);
  delete answer;
}

// One query: its questions are answered one after the other, as some need other nodes.
struct Query {
  Server::Impl* impl;
  std::vector<Question> questions;
  pmix_info_cbfunc_t callback;
  void* context;
  InfoList infos;
  size_t next = 0;
};

void go_on(const std::shared_ptr<Query>& query);

void add_table(const std::shared_ptr<Query>& query, const Question& question,
               std::vector<Process> remote) {
  const auto job = query->impl->jobs.find(question.job);
  if (job == query->impl->jobs.end()) return;
  auto rows = query->impl->processes(question.job);
  const auto& ranks = job->second.job.ranks;
  for (const auto& row : remote)
    if (row.rank < ranks.size() && ranks[row.rank].node != query->impl->options.node)
      rows.push_back(row);
  std::sort(rows.begin(), rows.end(),
            [](const Process& a, const Process& b) { return a.rank < b.rank; });
  pmix_value_t table = process_table(job->second.job, rows);
  query->infos.value(question.key.c_str(), table);
  PMIX_VALUE_DESTRUCT(&table);
}

void answer(const std::shared_ptr<Query>& query) {
  const Question& question = query->questions[query->next++];
  if (question.key == PMIX_QUERY_NAMESPACES) {
    std::string names;
    for (const auto& [name, job] : query->impl->jobs) names += (names.empty() ? "" : ",") + name;
    query->infos.text(PMIX_QUERY_NAMESPACES, names);
  } else if (question.key == PMIX_QUERY_SPAWN_SUPPORT) {
    query->infos.text(PMIX_QUERY_SPAWN_SUPPORT, PMIX_HOST "," PMIX_WDIR);
  } else if (question.key == PMIX_QUERY_NUM_PSETS) {
    query->infos.u32(PMIX_QUERY_NUM_PSETS, 0);
  } else if (question.key == PMIX_QUERY_PSET_NAMES) {
    query->infos.text(PMIX_QUERY_PSET_NAMES, "");
  } else if (question.key == PMIX_QUERY_LOCAL_PROC_TABLE) {
    add_table(query, question, {});
  } else if (question.key == PMIX_QUERY_PROC_TABLE) {
    return query->impl->exchange->processes(question.job,
                                            [query, question](std::vector<Process> remote) {
                                              add_table(query, question, std::move(remote));
                                              go_on(query);
                                            });
  }
  go_on(query);
}

void go_on(const std::shared_ptr<Query>& query) {
  if (query->next < query->questions.size()) return answer(query);
  const size_t n = query->infos.size();
  if (n == 0)
    return query->callback(PMIX_ERR_NOT_FOUND, nullptr, 0, query->context, nullptr, nullptr);
  auto* reply = new Answer{query->infos.release(), n};
  query->callback(n < query->questions.size() ? PMIX_QUERY_PARTIAL_SUCCESS : PMIX_SUCCESS,
                  reply->infos, n, query->context, release_answer, reply);
}

// The asker is no help: libpmix says that it is the server itself.
pmix_status_t on_query(pmix_proc_t*, pmix_query_t* queries, size_t n, pmix_info_cbfunc_t callback,
                       void* context) {
  Server::Impl* impl = upcall_target;
  auto query = std::make_shared<Query>();
  query->impl = impl;
  query->callback = callback;
  query->context = context;
  for (size_t i = 0; i < n; ++i) {
    const auto named = text(find(queries[i].qualifiers, queries[i].nqual, PMIX_NSPACE));
    for (char** key = queries[i].keys; key != nullptr && *key != nullptr; ++key)
      query->questions.push_back({*key, named});
  }
  impl->shift.post([query] { go_on(query); });
  return PMIX_SUCCESS;
}

}  // namespace

std::vector<Process> Server::Impl::processes(const std::string& job) {
  std::vector<Process> rows;
  const std::lock_guard lock(mutex);
  const auto it = jobs.find(job);
  if (it == jobs.end()) return rows;
  const auto& record = it->second;
  for (uint32_t r = 0; r < record.ranks.size(); ++r) {
    if (record.job.ranks[r].node != options.node) continue;
    const auto& rank = record.ranks[r];
    rows.push_back(
        {r, rank.pid, rank.ending ? rank.ending->value : 0, static_cast<uint16_t>(state_of(rank))});
  }
  return rows;
}

void add_query_upcalls(pmix_server_module_t& module) { module.query = on_query; }

}  // namespace rlx::pmix
