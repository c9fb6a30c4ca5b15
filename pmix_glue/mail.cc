// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/mail.h"

#include <fmt/core.h>
#include <pmix.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <iterator>
#include <optional>
#include <thread>

#include "base/log.h"
#include "pmix_glue/info.h"

namespace rlx::pmix {
namespace {

// How long a program has for its last words before the job ends.
constexpr auto kGrace = std::chrono::seconds(2);

std::string cause_of(pmix_status_t event, std::optional<int64_t> exit_code) {
  switch (event) {
    case PMIX_ERR_PROC_ABORTED_BY_SIG:
      // Our server gives 128 and the signal, as a shell would.
      if (exit_code && *exit_code > 128)
        return fmt::format("killed by signal {} ({})", *exit_code - 128,
                           ::strsignal(static_cast<int>(*exit_code - 128)));
      return "killed by a signal";
    case PMIX_ERR_EXIT_NONZERO_TERM:
      return exit_code ? fmt::format("exited with status {}", *exit_code) : "exited with an error";
    case PMIX_ERR_PROC_FAILED_TO_START:
      return "could not be started";
    case PMIX_ERR_PROC_TERM_WO_SYNC:
      return "exited without finalizing";
    case PMIX_EVENT_NODE_DOWN:
      return "the host it ran on is lost";
    default:
      return fmt::format("ended ({})", PMIx_Error_string(event));
  }
}

void on_event(size_t, pmix_status_t event, const pmix_proc_t*, pmix_info_t infos[], size_t n,
              pmix_info_t[], size_t, pmix_event_notification_cbfunc_fn_t done, void* context) {
  if (event == PMIX_ERR_LOST_CONNECTION) {
    report(-1, "the PMIx server (the launcher's part on this host) is gone");
  } else if (const auto* who = find(infos, n, PMIX_EVENT_AFFECTED_PROC);
             who != nullptr && who->type == PMIX_PROC && who->data.proc != nullptr) {
    const ProcId id = to_proc_id(*who->data.proc);
    if (id.job == mail().job && id.rank != kAllRanks)
      report(static_cast<int>(id.rank), cause_of(event, number(find(infos, n, PMIX_EXIT_CODE))));
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
}

}  // namespace

Mail& mail() {
  static auto* const only = new Mail;
  return *only;
}

void report(int rank, const std::string& cause) {
  std::function<void(int, std::string)> tell;
  {
    const std::lock_guard lock(mail().mutex);
    for (const auto& [known, why] : mail().failed)
      if (known == rank) return;
    mail().failed.emplace_back(rank, cause);
    tell = mail().on_failure;
  }
  mail().news.notify_all();
  if (tell) tell(rank, cause);
}

// Codes must be named: libpmix 4.2 never forwards a server's events to a handler for "all". A
// server that knows no events (Slurm's) refuses the second set, so the loss of the server itself is
// asked for apart.
bool register_events() {
  pmix_status_t server[] = {PMIX_ERR_LOST_CONNECTION};
  pmix_status_t peers[] = {PMIX_ERR_PROC_ABORTED_BY_SIG,  PMIX_ERR_EXIT_NONZERO_TERM,
                           PMIX_ERR_PROC_FAILED_TO_START, PMIX_ERR_PROC_TERM_WO_SYNC,
                           PMIX_ERR_PROC_ABORTED,         PMIX_EVENT_NODE_DOWN};
  const pmix_status_t first = PMIx_Register_event_handler(server, std::size(server), nullptr, 0,
                                                          on_event, nullptr, nullptr);
  const pmix_status_t second =
      PMIx_Register_event_handler(peers, std::size(peers), nullptr, 0, on_event, nullptr, nullptr);
  if (first < 0 || second < 0)
    log::debug("this PMIx server tells nothing about ranks that die: {}",
               PMIx_Error_string(first < 0 ? first : second));
  return second >= 0;
}

void end_job_soon(const std::string& why) {
  static std::once_flag once;
  std::call_once(once, [&why] {
    std::thread([why] {
      std::this_thread::sleep_for(kGrace);
      if (mail().left) return;
      log::error("{}; this launcher does not end a job whose rank has died, so rlx does", why);
      PMIx_Abort(1, why.c_str(), nullptr, 0);
      ::_exit(1);
    }).detach();
  });
}

}  // namespace rlx::pmix
