// SPDX-License-Identifier: MIT OR Apache-2.0
// A rank's environment.
#include <fmt/core.h>
#include <pmix_server.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

bool has(const std::vector<std::string>& environment, std::string_view name) {
  return std::any_of(environment.begin(), environment.end(), [&](const std::string& entry) {
    return entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name);
  });
}

void set_default(std::vector<std::string>& environment, const std::string& name,
                 const std::string& value) {
  if (!has(environment, name)) environment.push_back(name + "=" + value);
}

// Lets libpmix add its variables to a C array of entries.
Status add_pmix(const ProcId& rank, std::vector<std::string>& environment) {
  auto** array = static_cast<char**>(std::calloc(environment.size() + 1, sizeof(char*)));
  if (array == nullptr) return fail(Code::kNoMemory, "no memory for an environment");
  for (size_t i = 0; i < environment.size(); ++i) array[i] = ::strdup(environment[i].c_str());
  const pmix_proc_t proc = from_proc_id(rank);
  const pmix_status_t status = PMIx_server_setup_fork(&proc, &array);
  environment.clear();
  for (char** e = array; *e != nullptr; ++e) {
    environment.emplace_back(*e);
    std::free(*e);
  }
  std::free(array);
  if (status != PMIX_SUCCESS) return fail_pmix(status, "PMIx_server_setup_fork");
  return {};
}

void add_pmi1(const JobRecord& record, uint32_t rank, int fd,
              std::vector<std::string>& environment) {
  const auto& ranks = record.job.ranks;
  uint32_t local_rank = 0, n_local = 0;
  for (uint32_t r = 0; r < ranks.size(); ++r)
    if (ranks[r].node == ranks[rank].node) {
      local_rank += r < rank;
      ++n_local;
    }
  environment.push_back(fmt::format("PMI_FD={}", fd));
  environment.push_back(fmt::format("PMI_RANK={}", rank));
  environment.push_back(fmt::format("PMI_SIZE={}", ranks.size()));
  environment.push_back(fmt::format("MPI_LOCALRANKID={}", local_rank));
  environment.push_back(fmt::format("MPI_LOCALNRANKS={}", n_local));
}

// Open MPI 4.1 takes itself for a world of one unless something says that its ranks were started
// directly and not by its own mpirun. This variable of IBM's JSM says so and nothing else; it also
// keeps Open MPI from binding ranks that we have bound. Open MPI 5 needs none of it.
void add_open_mpi(const Job& job, std::vector<std::string>& environment) {
  set_default(environment, "JSM_JSRUN_PORT", "1");
  // The psm fabrics ask for a key that all ranks of the job share.
  const uint64_t key = std::hash<std::string>{}(job.name);
  set_default(environment, "OMPI_MCA_orte_precondition_transports",
              fmt::format("{:016x}-{:016x}", key, ~key));
  if (job.oversubscribed) set_default(environment, "OMPI_MCA_mpi_yield_when_idle", "1");
}

}  // namespace

Result<ChildSetup> Server::Impl::environment(const ProcId& rank,
                                             const std::vector<std::string>& base,
                                             Protocol protocol) {
  const auto it = jobs.find(rank.job);
  if (it == jobs.end() || rank.rank >= it->second.ranks.size())
    return fail(Code::kInternal, fmt::format("no rank {} of job {}", rank.rank, rank.job));
  ChildSetup child;
  for (const auto& entry : base) {
    const std::string_view name = std::string_view(entry).substr(0, entry.find('='));
    const bool replaced = (name.starts_with("PMIX_") && !name.starts_with("PMIX_MCA_")) ||
                          name.starts_with("PMI_") || name == "MPI_LOCALRANKID" ||
                          name == "MPI_LOCALNRANKS";
    if (!replaced) child.environment.push_back(entry);
  }
  if (protocol == Protocol::kPmi1) {
    RLX_TRY_ASSIGN(child.pmi_fd, open_pmi1(it->second, rank.rank));
    add_pmi1(it->second, rank.rank, child.pmi_fd, child.environment);
    return child;
  }
  RLX_TRY(add_pmix(rank, child.environment));
  // Without it, libpmix tells of a lost server only a second later.
  set_default(child.environment, "PMIX_MCA_pmix_event_caching_window", "0");
  add_open_mpi(it->second.job, child.environment);
  return child;
}

}  // namespace rlx::pmix
