// SPDX-License-Identifier: MIT OR Apache-2.0
// Questions about jobs: their names, and the processes of one.
#include <pmix.h>
#include <pmix_server.h>

#include <algorithm>
#include <cstring>

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

// The ranks of a job; `here` limits them to one host.
pmix_value_t process_table(const JobRecord& record, const std::string* here) {
  const Job& job = record.job;
  std::vector<uint32_t> ranks;
  for (uint32_t r = 0; r < job.ranks.size(); ++r)
    if (here == nullptr || job.nodes[job.ranks[r].node] == *here) ranks.push_back(r);
  pmix_value_t value;
  PMIX_VALUE_CONSTRUCT(&value);
  value.type = PMIX_DATA_ARRAY;
  PMIX_DATA_ARRAY_CREATE(value.data.darray, ranks.size(), PMIX_PROC_INFO);
  auto* entries = static_cast<pmix_proc_info_t*>(value.data.darray->array);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint32_t r = ranks[i];
    const auto& argv = job.apps[job.ranks[r].app].argv;
    entries[i].proc = from_proc_id({job.name, r});
    entries[i].hostname = ::strdup(job.nodes[job.ranks[r].node].c_str());
    entries[i].executable_name = ::strdup(argv.empty() ? "" : argv[0].c_str());
    entries[i].pid = record.ranks[r].pid;
    entries[i].exit_code = record.ranks[r].ending ? record.ranks[r].ending->value : 0;
    entries[i].state = state_of(record.ranks[r]);
  }
  return value;
}

void answer(const Server::Impl& impl, const Question& question, InfoList& infos) {
  if (question.key == PMIX_QUERY_NAMESPACES) {
    std::string names;
    for (const auto& [name, job] : impl.jobs) names += (names.empty() ? "" : ",") + name;
    infos.text(PMIX_QUERY_NAMESPACES, names);
    return;
  }
  const bool local = question.key == PMIX_QUERY_LOCAL_PROC_TABLE;
  const auto job = impl.jobs.find(question.job);
  if ((question.key != PMIX_QUERY_PROC_TABLE && !local) || job == impl.jobs.end()) return;
  pmix_value_t table = process_table(job->second, local ? &impl.options.hostname : nullptr);
  infos.value(question.key.c_str(), table);
  PMIX_VALUE_DESTRUCT(&table);
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

// The asker is no help: libpmix says that it is the server itself.
pmix_status_t on_query(pmix_proc_t*, pmix_query_t* queries, size_t n, pmix_info_cbfunc_t callback,
                       void* context) {
  Server::Impl* impl = upcall_target;
  std::vector<Question> questions;
  for (size_t i = 0; i < n; ++i) {
    const auto named = text(find(queries[i].qualifiers, queries[i].nqual, PMIX_NSPACE));
    for (char** key = queries[i].keys; key != nullptr && *key != nullptr; ++key)
      questions.push_back({*key, named});
  }
  impl->shift.post([impl, questions = std::move(questions), callback, context] {
    InfoList infos;
    {
      const std::lock_guard lock(impl->mutex);
      for (const auto& question : questions) answer(*impl, question, infos);
    }
    const size_t n_answers = infos.size();
    if (n_answers == 0) {
      callback(PMIX_ERR_NOT_FOUND, nullptr, 0, context, nullptr, nullptr);
      return;
    }
    auto* reply = new Answer{infos.release(), n_answers};
    callback(n_answers < questions.size() ? PMIX_QUERY_PARTIAL_SUCCESS : PMIX_SUCCESS, reply->infos,
             n_answers, context, release_answer, reply);
  });
  return PMIX_SUCCESS;
}

}  // namespace

void add_query_upcalls(pmix_server_module_t& module) { module.query = on_query; }

}  // namespace rlx::pmix
