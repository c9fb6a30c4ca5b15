// SPDX-License-Identifier: MIT OR Apache-2.0
// What other nodes read of the ranks of this one, when no fence has collected it.
#include <fmt/core.h>
#include <pmix_server.h>

#include <algorithm>

#include "pmix_glue/info.h"
#include "pmix_glue/server_impl.h"
#include "pmix_glue/status.h"

namespace rlx::pmix {
namespace {

// For a rank that ended in good order and may have put nothing: libpmix waits for it all the same.
constexpr int64_t kPatienceMs = 1000;

// On libpmix's thread, perhaps long after the question was given up.
void on_read(pmix_status_t status, char* data, size_t n, void* context) {
  Server::Impl* impl = upcall_target;
  if (impl == nullptr) return;
  Result<std::string> bytes = std::string(data != nullptr ? data : "", data != nullptr ? n : 0);
  if (status != PMIX_SUCCESS) bytes = fail_pmix(status, "PMIx_server_dmodex_request");
  impl->shift.post([impl, id = reinterpret_cast<uintptr_t>(context), bytes = std::move(bytes)] {
    impl->end_reading(id, bytes);
  });
}

}  // namespace

void Server::Impl::read(const ProcId& owner, Exchange::BytesReply reply) {
  const RankRecord* record = find(owner);
  if (record == nullptr)
    return reply(fail(Code::kInvalid, fmt::format("no rank {} here", owner.rank)));
  if (record->ending && record->ending->is_failure())
    return reply(fail(Code::kPeerFailed, fmt::format("rank {} is gone", owner.rank)));
  const uint64_t id = next_reading++;
  readings[id] = {owner, std::move(reply), std::nullopt};
  const pmix_proc_t proc = from_proc_id(owner);
  const pmix_status_t status =
      PMIx_server_dmodex_request(&proc, on_read, reinterpret_cast<void*>(uintptr_t{id}));
  if (status != PMIX_SUCCESS)
    return end_reading(id, fail_pmix(status, "PMIx_server_dmodex_request"));
  if (record->ending) owner_ended(owner, false);
}

void Server::Impl::end_reading(uint64_t id, Result<std::string> result) {
  auto node = readings.extract(id);
  if (node.empty()) return;
  if (node.mapped().timer) shift.cancel(*node.mapped().timer);
  node.mapped().reply(std::move(result));
}

void Server::Impl::owner_ended(const ProcId& owner, bool failed) {
  std::vector<uint64_t> ids;
  for (const auto& [id, reading] : readings)
    if (reading.owner == owner) ids.push_back(id);
  for (const uint64_t id : ids) {
    const auto give_up = [this, id, rank = owner.rank] {
      end_reading(id, fail(Code::kPeerFailed, fmt::format("rank {} is gone", rank)));
    };
    if (failed)
      give_up();
    else if (Reading& reading = readings.at(id); !reading.timer)
      reading.timer = shift.after_ms(kPatienceMs, give_up);
  }
}

}  // namespace rlx::pmix
