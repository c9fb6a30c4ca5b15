// SPDX-License-Identifier: MIT OR Apache-2.0
// What libpmix calls, on its own thread, when a rank asks for something. Each function copies its
// arguments and queues the work. None answers from inside: libpmix 4.2 holds a lock around `log`
// and waits for itself for ever.
#include <fmt/core.h>
#include <pmix.h>
#include <pmix_server.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

// A client waits for the answer before it goes on, so these are exact when the process has ended.
pmix_status_t note(const pmix_proc_t* proc, bool RankState::*fact,
                   void (Host::*told)(const ProcId&)) {
  Server::Impl* impl = upcall_target;
  const ProcId id = to_proc_id(*proc);
  {
    const std::lock_guard lock(impl->mutex);
    RankRecord* record = impl->find(id);
    if (record == nullptr) return PMIX_ERR_NOT_FOUND;
    record->state.*fact = true;
  }
  impl->shift.post([impl, id, told] { (impl->host->*told)(id); });
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t on_connected(const pmix_proc_t* proc, void*, pmix_info_t*, size_t, pmix_op_cbfunc_t,
                           void*) {
  return note(proc, &RankState::connected, &Host::connected);
}

pmix_status_t on_finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  return note(proc, &RankState::finalized, &Host::finalized);
}

// Answered after the launcher knows, so that it hears of the abort before it can see the exit.
pmix_status_t on_abort(const pmix_proc_t* proc, void*, int status, const char* message,
                       pmix_proc_t* procs, size_t n, pmix_op_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  impl->shift.post([impl, by = to_proc_id(*proc), status,
                    text = std::string(message != nullptr ? message : ""),
                    victims = to_proc_ids(procs, n), callback, context] {
    impl->host->aborted(by, status, text, victims);
    if (callback != nullptr) callback(PMIX_SUCCESS, context);
  });
  return PMIX_SUCCESS;
}

// Bytes that libpmix frees when it has read them.
void reply_bytes(pmix_modex_cbfunc_t callback, void* context, const Result<std::string>& bytes) {
  if (!bytes) {
    callback(status_of(bytes.error().code), nullptr, 0, context, nullptr, nullptr);
    return;
  }
  auto* copy = static_cast<char*>(std::malloc(bytes->size() + 1));
  if (copy == nullptr) {
    callback(PMIX_ERR_NOMEM, nullptr, 0, context, nullptr, nullptr);
    return;
  }
  std::memcpy(copy, bytes->data(), bytes->size());
  callback(PMIX_SUCCESS, copy, bytes->size(), context, std::free, copy);
}

pmix_status_t on_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t infos[],
                       size_t n_infos, char* data, size_t n_bytes, pmix_modex_cbfunc_t callback,
                       void* context) {
  Server::Impl* impl = upcall_target;
  Result<std::string> part =
      std::string(data != nullptr ? data : "", data != nullptr ? n_bytes : 0);
  std::free(data);  // ours, whatever pmix_server.h says
  // Not success: a local rank died inside, or did not come in time, and this is not all.
  const auto local =
      number(find(infos, n_infos, PMIX_LOCAL_COLLECTIVE_STATUS)).value_or(PMIX_SUCCESS);
  if (local == PMIX_ERR_TIMEOUT)
    part = fail(Code::kTimeout, "time is up");
  else if (local != PMIX_SUCCESS)
    part = fail(Code::kPeerFailed, "a rank is gone");
  impl->shift.post([impl, ids = to_proc_ids(procs, n), part = std::move(part),
                    timeout = timeout_ms(infos, n_infos), callback, context] {
    impl->gather(Meeting::kFence, ids, part, timeout,
                 [callback, context](const Result<std::string>& all) {
                   reply_bytes(callback, context, all);
                 });
  });
  return PMIX_SUCCESS;
}

// Connect and disconnect are fences without data.
template <Meeting kind>
pmix_status_t on_connect(const pmix_proc_t procs[], size_t n, const pmix_info_t infos[],
                         size_t n_infos, pmix_op_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  impl->shift.post(
      [impl, ids = to_proc_ids(procs, n), timeout = timeout_ms(infos, n_infos), callback, context] {
        impl->gather(kind, ids, "", timeout, [callback, context](const Result<std::string>& all) {
          callback(all ? PMIX_SUCCESS : status_of(all.error().code), context);
        });
      });
  return PMIX_SUCCESS;
}

pmix_status_t on_modex(const pmix_proc_t* proc, const pmix_info_t infos[], size_t n_infos,
                       pmix_modex_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  impl->shift.post(
      [impl, owner = to_proc_id(*proc), timeout = timeout_ms(infos, n_infos), callback, context] {
        impl->fetch(owner, timeout, [callback, context](const Result<std::string>& bytes) {
          reply_bytes(callback, context, bytes);
        });
      });
  return PMIX_SUCCESS;
}

std::vector<std::string> strings(char* const* array) {
  std::vector<std::string> out;
  for (; array != nullptr && *array != nullptr; ++array) out.emplace_back(*array);
  return out;
}

SpawnApp to_spawn_app(const pmix_app_t& app) {
  SpawnApp out;
  out.argv = strings(app.argv);
  if (out.argv.empty()) out.argv.emplace_back();
  if (app.cmd != nullptr) out.argv[0] = app.cmd;
  out.environment = strings(app.env);
  out.n_ranks = app.maxprocs > 0 ? static_cast<uint32_t>(app.maxprocs) : 0;
  // Libraries put their own directory into `cwd`, and what the user asked for beside it.
  const std::string wdir = text(find(app.info, app.ninfo, PMIX_WDIR));
  out.wdir = app.cwd != nullptr ? app.cwd : "";
  if (!wdir.empty()) out.wdir = std::filesystem::path(out.wdir) / wdir;
  out.hosts = text(find(app.info, app.ninfo, PMIX_HOST));
  return out;
}

pmix_status_t on_spawn(const pmix_proc_t* proc, const pmix_info_t[], size_t,
                       const pmix_app_t apps[], size_t n, pmix_spawn_cbfunc_t callback,
                       void* context) {
  Server::Impl* impl = upcall_target;
  SpawnRequest request;
  request.parent = to_proc_id(*proc);
  for (size_t i = 0; i < n; ++i) request.apps.push_back(to_spawn_app(apps[i]));
  impl->shift.post([impl, request = std::move(request), callback, context]() mutable {
    request.id = impl->next_spawning++;
    impl->spawnings[request.id] = {callback, context};
    impl->host->spawn(std::move(request));
  });
  return PMIX_SUCCESS;
}

// Open MPI logs its help texts as a record packed in its own way: keep the longest text in it.
std::string longest_text(const char* bytes, size_t n) {
  std::string best, run;
  for (size_t i = 0; i <= n; ++i) {
    const unsigned char c = i < n ? static_cast<unsigned char>(bytes[i]) : 0;
    if (c >= ' ' || std::isspace(c)) {
      run += static_cast<char>(c);
    } else {
      if (run.size() > best.size()) best = run;
      run.clear();
    }
  }
  return best;
}

void on_log(const pmix_proc_t* client, const pmix_info_t data[], size_t n, const pmix_info_t[],
            size_t, pmix_op_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  std::vector<std::pair<LogChannel, std::string>> lines;
  for (size_t i = 0; i < n; ++i) {
    const auto& value = data[i].value;
    if (PMIX_CHECK_KEY(&data[i], PMIX_LOG_STDOUT))
      lines.emplace_back(LogChannel::kStdout, text(&value));
    else if (!PMIX_CHECK_KEY(&data[i], PMIX_LOG_STDERR))
      continue;  // we write no mail, no system log and no data base
    else if (value.type == PMIX_STRING)
      lines.emplace_back(LogChannel::kStderr, text(&value));
    else if (value.type == PMIX_BYTE_OBJECT && value.data.bo.bytes != nullptr)
      lines.emplace_back(LogChannel::kStderr,
                         longest_text(value.data.bo.bytes, value.data.bo.size));
  }
  impl->shift.post([impl, from = to_proc_id(*client), lines = std::move(lines), callback, context] {
    for (const auto& [channel, line] : lines)
      if (!line.empty()) impl->host->logged(from, channel, line);
    const bool none = lines.empty();
    if (callback != nullptr) callback(none ? PMIX_ERR_NOT_SUPPORTED : PMIX_SUCCESS, context);
  });
}

}  // namespace

Server::Impl* upcall_target = nullptr;

pmix_server_module_t upcall_module() {
  pmix_server_module_t module{};
  module.client_connected2 = on_connected;
  module.client_finalized = on_finalized;
  module.abort = on_abort;
  module.fence_nb = on_fence;
  module.direct_modex = on_modex;
  module.spawn = on_spawn;
  module.connect = on_connect<Meeting::kConnect>;
  module.disconnect = on_connect<Meeting::kDisconnect>;
  module.log = on_log;
  // `group` stays null: libpmix 4.2.2 leaves its callers waiting for ever when a host refuses one,
  // and answers "not supported" by itself when there is none.
  add_control_upcalls(module);
  add_event_upcalls(module);
  add_name_upcalls(module);
  add_query_upcalls(module);
  return module;
}

}  // namespace rlx::pmix
