// SPDX-License-Identifier: MIT OR Apache-2.0
// Fences, connects and disconnects that reach beyond the ranks libpmix can see by itself: other
// nodes take part, or a rank has ended.
#include <fmt/core.h>

#include <algorithm>

#include "pmix_glue/server_impl.h"

namespace rlx::pmix {
namespace {

bool covers(const std::vector<ProcId>& procs, const ProcId& rank) {
  return std::any_of(procs.begin(), procs.end(), [&](const ProcId& p) {
    return p.job == rank.job && (p.rank == kAllRanks || p.rank == rank.rank);
  });
}

}  // namespace

std::optional<std::string> Server::Impl::missing(const std::vector<ProcId>& procs) const {
  const std::lock_guard lock(mutex);
  for (const auto& proc : procs) {
    const auto job = jobs.find(proc.job);
    if (job == jobs.end()) continue;
    const auto& ranks = job->second.ranks;
    for (uint32_t r = 0; r < ranks.size(); ++r)
      if ((proc.rank == kAllRanks || proc.rank == r) && (ranks[r].ending || ranks[r].lost))
        return fmt::format("rank {} is gone", r);
  }
  return std::nullopt;
}

void Server::Impl::gather(std::vector<ProcId> procs, std::string data,
                          std::optional<int64_t> timeout,
                          std::function<void(Result<std::string>)> reply) {
  if (const auto who = missing(procs)) {
    reply(fail(Code::kPeerFailed, *who));
    return;
  }
  std::sort(procs.begin(), procs.end());
  // Answered once: by the exchange, by time, or by a rank's end, whichever comes first. The
  // exchange's late answer finds the entry gone.
  const uint64_t id = next_gathering++;
  auto& entry = gatherings[id];
  entry.procs = procs;
  entry.reply = std::move(reply);
  if (timeout)
    entry.timer = shift.after_ms(
        *timeout, [this, id] { end_gathering(id, fail(Code::kTimeout, "time is up")); });
  exchange->fence(procs, std::move(data),
                  [this, id](Result<std::string> all) { end_gathering(id, std::move(all)); });
}

void Server::Impl::end_gathering(uint64_t id, Result<std::string> result) {
  auto node = gatherings.extract(id);
  if (node.empty()) return;
  if (node.mapped().timer) shift.cancel(*node.mapped().timer);
  node.mapped().reply(std::move(result));
}

void Server::Impl::fail_gatherings_of(const ProcId& rank) {
  std::vector<uint64_t> ids;
  for (const auto& [id, gathering] : gatherings)
    if (covers(gathering.procs, rank)) ids.push_back(id);
  for (const uint64_t id : ids)
    end_gathering(id, fail(Code::kPeerFailed, fmt::format("rank {} is gone", rank.rank)));
}

}  // namespace rlx::pmix
