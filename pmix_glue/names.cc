// SPDX-License-Identifier: MIT OR Apache-2.0
// Publish, lookup, unpublish. Open MPI's spawn and connect rest on them.
#include <pmix.h>
#include <pmix_server.h>

#include <memory>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

Publication::Lifetime lifetime_of(const pmix_info_t infos[], size_t n) {
  switch (number(find(infos, n, PMIX_PERSISTENCE)).value_or(PMIX_PERSIST_SESSION)) {
    case PMIX_PERSIST_FIRST_READ:
      return Publication::Lifetime::kFirstRead;
    case PMIX_PERSIST_PROC:
      return Publication::Lifetime::kRank;
    case PMIX_PERSIST_APP:
      return Publication::Lifetime::kJob;
    default:
      return Publication::Lifetime::kSession;
  }
}

Publication::Scope scope_of(const pmix_info_t infos[], size_t n) {
  switch (number(find(infos, n, PMIX_RANGE)).value_or(PMIX_RANGE_SESSION)) {
    case PMIX_RANGE_PROC_LOCAL:
      return Publication::Scope::kRank;
    case PMIX_RANGE_NAMESPACE:
      return Publication::Scope::kJob;
    default:
      return Publication::Scope::kSession;
  }
}

pmix_status_t on_publish(const pmix_proc_t* proc, const pmix_info_t infos[], size_t n,
                         pmix_op_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  std::vector<Publication> items;
  for (size_t i = 0; i < n; ++i) {
    // Directives have reserved names; everything else is what the rank publishes.
    const std::string_view key(infos[i].key, strnlen(infos[i].key, PMIX_MAX_KEYLEN));
    if (key.starts_with("pmix.")) continue;
    const auto packed = pack_value(infos[i].value);
    if (!packed) return PMIX_ERR_BAD_PARAM;
    items.push_back(
        {to_proc_id(*proc), std::string(key), *packed, lifetime_of(infos, n), scope_of(infos, n)});
  }
  impl->shift.post([impl, items = std::move(items), callback, context] {
    auto left = std::make_shared<size_t>(items.size());
    auto result = std::make_shared<pmix_status_t>(PMIX_SUCCESS);
    for (const auto& item : items)
      impl->exchange->publish(item, [left, result, callback, context](const Status& status) {
        if (!status) *result = PMIX_ERR_DUPLICATE_KEY;
        if (--*left == 0) callback(*result, context);
      });
    if (items.empty()) callback(PMIX_ERR_BAD_PARAM, context);
  });
  return PMIX_SUCCESS;
}

void reply_lookup(pmix_lookup_cbfunc_t callback, void* context, size_t n_wanted,
                  const std::vector<Publication>& found) {
  std::vector<pmix_pdata_t> items;
  for (const auto& item : found) {
    pmix_pdata_t data;
    PMIX_PDATA_CONSTRUCT(&data);
    data.proc = from_proc_id(item.owner);
    PMIX_LOAD_KEY(data.key, item.key.c_str());
    if (unpack_value(item.value, data.value)) items.push_back(data);
  }
  const pmix_status_t status = items.empty()             ? PMIX_ERR_NOT_FOUND
                               : items.size() < n_wanted ? PMIX_ERR_PARTIAL_SUCCESS
                                                         : PMIX_SUCCESS;
  callback(status, items.data(), items.size(), context);
  for (auto& item : items) PMIX_PDATA_DESTRUCT(&item);
}

// Looks up now; with PMIX_WAIT the request is parked until enough is published, or time is up.
void lookup(Server::Impl* impl, LookupRequest request, std::optional<int64_t> timeout,
            pmix_lookup_cbfunc_t callback, void* context) {
  struct State {
    bool answered = false;
    std::optional<Shift::TimerId> timer;
  };
  auto state = std::make_shared<State>();
  const size_t n_wanted = request.keys.size();
  const uint64_t ticket =
      impl->exchange->lookup(std::move(request), [=](const std::vector<Publication>& found) {
        state->answered = true;
        if (state->timer) impl->shift.cancel(*state->timer);
        reply_lookup(callback, context, n_wanted, found);
      });
  if (state->answered || !timeout) return;
  state->timer = impl->shift.after_ms(*timeout, [=] {
    impl->exchange->cancel(ticket);
    callback(PMIX_ERR_TIMEOUT, nullptr, 0, context);
  });
}

pmix_status_t on_lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t infos[], size_t n,
                        pmix_lookup_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  LookupRequest request;
  request.by = to_proc_id(*proc);
  for (char** key = keys; key != nullptr && *key != nullptr; ++key) request.keys.emplace_back(*key);
  if (const auto* wait = find(infos, n, PMIX_WAIT)) {
    // A number is how many must be there; 0 and "true" mean all.
    const int64_t count = wait->type == PMIX_BOOL ? 0 : number(wait).value_or(0);
    request.wait_for = count > 0 ? static_cast<size_t>(count) : request.keys.size();
  }
  impl->shift.post([impl, request, timeout = timeout_ms(infos, n), callback, context] {
    lookup(impl, request, timeout, callback, context);
  });
  return PMIX_SUCCESS;
}

pmix_status_t on_unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t[], size_t,
                           pmix_op_cbfunc_t callback, void* context) {
  Server::Impl* impl = upcall_target;
  std::vector<std::string> names;
  for (char** key = keys; key != nullptr && *key != nullptr; ++key) names.emplace_back(*key);
  impl->shift.post([impl, owner = to_proc_id(*proc), names = std::move(names), callback, context] {
    impl->exchange->unpublish(owner, names, [callback, context](const Status& status) {
      callback(status ? PMIX_SUCCESS : status_of(status.error().code), context);
    });
  });
  return PMIX_SUCCESS;
}

}  // namespace

void add_name_upcalls(pmix_server_module_t& module) {
  module.publish = on_publish;
  module.lookup = on_lookup;
  module.unpublish = on_unpublish;
}

}  // namespace rlx::pmix
