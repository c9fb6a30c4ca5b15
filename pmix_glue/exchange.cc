// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/exchange.h"

#include <fmt/core.h>

namespace rlx::pmix {

// The only node there is has taken part, so everybody has.
void OneHost::fence(const std::vector<ProcId>&, std::string data, BytesReply reply) {
  reply(std::move(data));
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

void OneHost::gone(const ProcId& who) { store_.gone(who); }

}  // namespace rlx::pmix
