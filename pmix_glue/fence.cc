// SPDX-License-Identifier: MIT OR Apache-2.0
// Fences, connects, disconnects and reads that reach beyond the ranks libpmix can see by itself:
// other nodes take part, or a rank has ended.
#include <fmt/core.h>

#include <algorithm>

#include "pmix_glue/server_impl.h"

namespace rlx::pmix {
std::optional<std::string> Server::Impl::missing(const std::vector<ProcId>& procs) const {
  const std::lock_guard lock(mutex);
  for (const auto& proc : procs) {
    const auto job = jobs.find(proc.job);
    if (job == jobs.end()) continue;
    const auto& ranks = job->second.ranks;
    for (uint32_t r = 0; r < ranks.size(); ++r)
      if (covers(proc, {proc.job, r}) && (ranks[r].ending || ranks[r].lost))
        return fmt::format("rank {} is gone", r);
  }
  return std::nullopt;
}

uint64_t Server::Impl::wait(std::vector<ProcId> procs, std::optional<int64_t> timeout,
                            Exchange::BytesReply reply) {
  const uint64_t id = next_waiting++;
  auto& entry = waiting[id];
  entry.procs = std::move(procs);
  entry.reply = std::move(reply);
  if (timeout)
    entry.timer =
        shift.after_ms(*timeout, [this, id] { answer(id, fail(Code::kTimeout, "time is up")); });
  return id;
}

void Server::Impl::answer(uint64_t id, Result<std::string> result) {
  auto node = waiting.extract(id);
  if (node.empty()) return;  // it was answered before
  if (node.mapped().timer) shift.cancel(*node.mapped().timer);
  node.mapped().reply(std::move(result));
}

void Server::Impl::gather(Meeting kind, std::vector<ProcId> procs, Result<std::string> part,
                          std::optional<int64_t> timeout, Exchange::BytesReply reply) {
  if (const auto who = missing(procs)) part = fail(Code::kPeerFailed, *who);
  std::sort(procs.begin(), procs.end());
  const uint64_t id = wait(procs, timeout, std::move(reply));
  const bool in_vain = !part;
  exchange->meet(kind, procs, std::move(part),
                 [this, id](Result<std::string> all) { answer(id, std::move(all)); });
  if (in_vain) answer(id, fail(Code::kPeerFailed, "a rank is gone"));
}

void Server::Impl::fetch(const ProcId& owner, std::optional<int64_t> timeout,
                         Exchange::BytesReply reply) {
  const uint64_t id = wait({}, timeout, std::move(reply));
  exchange->fetch(owner, [this, id](Result<std::string> bytes) { answer(id, std::move(bytes)); });
}

void Server::Impl::fail_waiting_for(const ProcId& rank) {
  std::vector<uint64_t> ids;
  for (const auto& [id, entry] : waiting)
    if (covers(entry.procs, rank)) ids.push_back(id);
  for (const uint64_t id : ids)
    answer(id, fail(Code::kPeerFailed, fmt::format("rank {} is gone", rank.rank)));
}

}  // namespace rlx::pmix
