// SPDX-License-Identifier: MIT OR Apache-2.0
// Job control: a rank asks that others be signalled, paused or ended.
#include <pmix.h>
#include <pmix_server.h>
#include <signal.h>

#include <optional>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"

namespace rlx::pmix {
namespace {

// Nothing for a directive that is not ours to carry out, say a file that libpmix removes itself.
std::optional<Control> to_control(const pmix_info_t& info) {
  using Kind = Control::Kind;
  const auto wanted = number(&info.value);
  const bool yes = wanted.value_or(1) != 0;  // a flag may come without a value
  if (PMIX_CHECK_KEY(&info, PMIX_JOB_CTRL_SIGNAL))
    return Control{Kind::kSignal, static_cast<int>(wanted.value_or(0))};
  if (PMIX_CHECK_KEY(&info, PMIX_JOB_CTRL_PAUSE) && yes) return Control{Kind::kSignal, SIGSTOP};
  if (PMIX_CHECK_KEY(&info, PMIX_JOB_CTRL_RESUME) && yes) return Control{Kind::kSignal, SIGCONT};
  if (PMIX_CHECK_KEY(&info, PMIX_JOB_CTRL_TERMINATE) && yes) return Control{Kind::kTerminate, 0};
  if (PMIX_CHECK_KEY(&info, PMIX_JOB_CTRL_KILL) && yes) return Control{Kind::kKill, 0};
  return std::nullopt;
}

bool is_signal(int number) { return number > 0 && number <= SIGRTMAX; }

// Every rank that `targets` mean; nothing when one of them is no rank that we know.
std::optional<std::vector<ProcId>> ranks_of(const Server::Impl& impl,
                                            const std::vector<ProcId>& targets) {
  std::vector<ProcId> ranks;
  for (const auto& target : targets) {
    const auto job = impl.jobs.find(target.job);
    if (job == impl.jobs.end()) return std::nullopt;
    const auto n_ranks = static_cast<uint32_t>(job->second.ranks.size());
    if (target.rank != kAllRanks && target.rank >= n_ranks) return std::nullopt;
    for (uint32_t rank = 0; rank < n_ranks; ++rank)
      if (covers(target, {target.job, rank})) ranks.push_back({target.job, rank});
  }
  return ranks;
}

// Success is that all has been asked for. Without this function libpmix would also refuse the files
// and directories that ranks ask it to remove when they die (Open MPI's segments in /dev/shm).
pmix_status_t on_job_control(const pmix_proc_t* proc, const pmix_proc_t targets[], size_t n_targets,
                             const pmix_info_t directives[], size_t n_directives,
                             pmix_info_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  std::vector<Control> controls;
  for (size_t i = 0; i < n_directives; ++i)
    if (const auto control = to_control(directives[i])) controls.push_back(*control);
  if (controls.empty()) return PMIX_ERR_NOT_SUPPORTED;
  for (const auto& control : controls)
    if (control.kind == Control::Kind::kSignal && !is_signal(control.signal_number))
      return PMIX_ERR_BAD_PARAM;
  const ProcId by = to_proc_id(*proc);
  auto meant = to_proc_ids(targets, n_targets);
  if (meant.empty()) meant.push_back({by.job, kAllRanks});
  impl->shift.post([impl, by, controls, meant, callback, context] {
    const auto ranks = ranks_of(*impl, meant);
    for (const auto& control : controls)
      if (ranks) impl->host->control(by, control, *ranks);
    if (callback != nullptr)
      callback(ranks ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, nullptr, 0, context, nullptr, nullptr);
  });
  return PMIX_SUCCESS;
}

}  // namespace

void add_control_upcalls(pmix_server_module_t& module) { module.job_control = on_job_control; }

}  // namespace rlx::pmix
