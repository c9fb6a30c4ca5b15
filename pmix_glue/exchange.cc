// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/exchange.h"

#include <fmt/core.h>

namespace rlx::pmix {

void OneHost::job_deregistered(const std::string& job) { store_.gone({job, kAllRanks}); }

// The only node there is has taken part, so everybody has.
void OneHost::meet(Meeting, const std::vector<ProcId>&, Result<std::string> part,
                   BytesReply reply) {
  reply(std::move(part));
}

void OneHost::fetch(const ProcId& owner, BytesReply reply) {
  reply(fail(Code::kInvalid, fmt::format("job {} has no rank {} here", owner.job, owner.rank)));
}

void OneHost::publish(Publication publication, StatusReply reply) {
  reply(store_.publish(std::move(publication)));
}

uint64_t OneHost::lookup(LookupRequest request, Store::Reply reply) {
  return store_.lookup(std::move(request), std::move(reply));
}

void OneHost::cancel(uint64_t ticket) { store_.cancel(ticket); }

void OneHost::unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                        StatusReply reply) {
  store_.unpublish(owner, keys);
  reply({});
}

void OneHost::ended(const ProcId& rank, const Ending&) { store_.gone(rank); }

}  // namespace rlx::pmix
