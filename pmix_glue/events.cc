// SPDX-License-Identifier: MIT OR Apache-2.0
// Events: what ranks tell each other, and what we tell them of ranks that have ended. libpmix
// serves the ranks of this node; others hear through their own servers.
#include <pmix.h>
#include <pmix_server.h>

#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

pmix_status_t on_register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t,
                                 pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t on_deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

bool reaches_other_nodes(pmix_data_range_t range) {
  return range != PMIX_RANGE_PROC_LOCAL && range != PMIX_RANGE_LOCAL && range != PMIX_RANGE_RM;
}

// An event as bytes for another server.
struct Event {
  pmix_status_t code = PMIX_SUCCESS;
  pmix_proc_t source{};
  pmix_data_range_t range = PMIX_RANGE_UNDEF;
  pmix_info_t* infos = nullptr;
  size_t n = 0;
};

Result<std::string> pack(Event event) {
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  pmix_status_t status = PMIx_Data_pack(nullptr, &buffer, &event.code, 1, PMIX_STATUS);
  if (status == PMIX_SUCCESS)
    status = PMIx_Data_pack(nullptr, &buffer, &event.source, 1, PMIX_PROC);
  if (status == PMIX_SUCCESS)
    status = PMIx_Data_pack(nullptr, &buffer, &event.range, 1, PMIX_DATA_RANGE);
  if (status == PMIX_SUCCESS) status = PMIx_Data_pack(nullptr, &buffer, &event.n, 1, PMIX_SIZE);
  if (status == PMIX_SUCCESS && event.n > 0)
    status =
        PMIx_Data_pack(nullptr, &buffer, event.infos, static_cast<int32_t>(event.n), PMIX_INFO);
  std::string bytes(buffer.base_ptr, buffer.bytes_used);
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  if (status != PMIX_SUCCESS) return fail_pmix(status, "cannot pack an event");
  return bytes;
}

// The caller frees the infos.
pmix_status_t unpack(const std::string& bytes, Event& event) {
  constexpr size_t kMaxInfos = 4096;
  pmix_data_buffer_t buffer;
  PMIX_DATA_BUFFER_CONSTRUCT(&buffer);
  pmix_byte_object_t object{static_cast<char*>(std::malloc(bytes.size() + 1)), bytes.size()};
  if (object.bytes == nullptr) return PMIX_ERR_NOMEM;
  std::memcpy(object.bytes, bytes.data(), bytes.size());
  pmix_status_t status = PMIx_Data_load(&buffer, &object);
  const auto get = [&](void* into, pmix_data_type_t type) {
    int32_t one = 1;
    if (status == PMIX_SUCCESS) status = PMIx_Data_unpack(nullptr, &buffer, into, &one, type);
  };
  get(&event.code, PMIX_STATUS);
  get(&event.source, PMIX_PROC);
  get(&event.range, PMIX_DATA_RANGE);
  size_t n = 0;
  get(&n, PMIX_SIZE);
  if (status == PMIX_SUCCESS && n > kMaxInfos) status = PMIX_ERR_BAD_PARAM;
  if (status == PMIX_SUCCESS && n > 0) {
    PMIX_INFO_CREATE(event.infos, n);
    event.n = n;
    auto count = static_cast<int32_t>(n);
    status = PMIx_Data_unpack(nullptr, &buffer, event.infos, &count, PMIX_INFO);
  }
  PMIX_DATA_BUFFER_DESTRUCT(&buffer);
  return status;
}

// libpmix has told the ranks of this node already.
pmix_status_t on_notify(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range,
                        pmix_info_t infos[], size_t n, pmix_op_cbfunc_t, void*) {
  if (!reaches_other_nodes(range)) return PMIX_OPERATION_SUCCEEDED;
  Server::Impl* impl = upcall_target;
  const auto bytes = pack({code, *source, range, infos, n});
  if (!bytes) return PMIX_ERR_PACK_FAILURE;
  impl->shift.post([impl, event = *bytes] { impl->exchange->tell(event); });
  return PMIX_OPERATION_SUCCEEDED;
}

// Runs on libpmix's thread before it reads anything else, so a fence begun after a death always
// finds it here, even when the launcher has not reaped the process yet.
void on_lost_connection(size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t[], size_t,
                        pmix_info_t[], size_t, pmix_event_notification_cbfunc_fn_t done,
                        void* context) {
  if (Server::Impl* impl = upcall_target; impl != nullptr && source != nullptr) {
    const std::lock_guard lock(impl->mutex);
    if (RankRecord* record = impl->find(to_proc_id(*source))) record->lost = true;
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
}

// A rank waits in Init.
void on_held(size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t[], size_t, pmix_info_t[],
             size_t, pmix_event_notification_cbfunc_fn_t done, void* context) {
  if (Server::Impl* impl = upcall_target; impl != nullptr && source != nullptr)
    impl->shift.post([impl, rank = to_proc_id(*source)] { impl->host->held(rank); });
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, context);
}

// The code that says how a rank failed, for those who registered for it.
pmix_status_t event_of(const Ending& ending) {
  switch (ending.kind) {
    case Ending::Kind::kNotStarted:
      return PMIX_ERR_PROC_FAILED_TO_START;
    case Ending::Kind::kSignaled:
      return PMIX_ERR_PROC_ABORTED_BY_SIG;
    case Ending::Kind::kUnfinalized:
      return PMIX_ERR_PROC_TERM_WO_SYNC;
    case Ending::Kind::kNodeLost:
      return PMIX_EVENT_NODE_DOWN;
    case Ending::Kind::kExited:
      break;
  }
  return PMIX_ERR_EXIT_NONZERO_TERM;
}

}  // namespace

void Server::Impl::told(const std::string& bytes) {
  Event event;
  pmix_status_t status = unpack(bytes, event);
  if (status == PMIX_SUCCESS)
    status = PMIx_Notify_event(event.code, &event.source, event.range, event.infos, event.n,
                               nullptr, nullptr);
  if (event.infos != nullptr) PMIX_INFO_FREE(event.infos, event.n);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    log::warn("an event of another node could not be told to the ranks of this one: {}",
              PMIx_Error_string(status));
}

// From the server itself, as ranks that a source stands for are told nothing; and to all, as
// libpmix keeps an event for those that come to Init later, but one with targets only for the first
// of them.
void Server::Impl::release() {
  InfoList infos;
  infos.flag(PMIX_EVENT_NON_DEFAULT, true);
  const pmix_status_t status = PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, nullptr, PMIX_RANGE_LOCAL,
                                                 infos.data(), infos.size(), nullptr, nullptr);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    log::warn("ranks that wait in Init cannot be let go: {}", PMIx_Error_string(status));
}

void Server::Impl::end_rank(const ProcId& rank, const Ending& ending) {
  RankRecord* record = find(rank);
  if (record == nullptr || record->ending) return;
  record->ending = ending;
  fail_waiting_for(rank);
  if (!ending.is_failure()) return;
  InfoList infos;
  infos.proc(PMIX_EVENT_AFFECTED_PROC, rank);
  // As a shell would say it: 128 and the signal.
  infos.integer(PMIX_EXIT_CODE,
                ending.kind == Ending::Kind::kSignaled ? 128 + ending.value : ending.value);
  const pmix_proc_t source = from_proc_id(rank);
  const pmix_status_t status = PMIx_Notify_event(event_of(ending), &source, PMIX_RANGE_LOCAL,
                                                 infos.data(), infos.size(), nullptr, nullptr);
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    log::warn("the end of rank {} could not be told to the others: {}", rank.rank,
              PMIx_Error_string(status));
}

Status watch_connections() {
  pmix_status_t code = PMIX_ERR_LOST_CONNECTION;
  const pmix_status_t status =
      PMIx_Register_event_handler(&code, 1, nullptr, 0, on_lost_connection, nullptr, nullptr);
  if (status < 0) return fail_pmix(status, "PMIx_Register_event_handler");
  return {};
}

// Before libpmix's own handler, which counts such ranks and passes them on to no other.
Status watch_held_ranks() {
  pmix_status_t code = PMIX_READY_FOR_DEBUG;
  InfoList infos;
  infos.flag(PMIX_EVENT_HDLR_PREPEND, true);
  const pmix_status_t status =
      PMIx_Register_event_handler(&code, 1, infos.data(), infos.size(), on_held, nullptr, nullptr);
  if (status < 0) return fail_pmix(status, "PMIx_Register_event_handler");
  return {};
}

void add_event_upcalls(pmix_server_module_t& module) {
  module.register_events = on_register_events;
  module.deregister_events = on_deregister_events;
  module.notify_event = on_notify;
}

}  // namespace rlx::pmix
