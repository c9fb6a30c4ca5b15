// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/store.h"

#include <fmt/core.h>

#include <algorithm>

namespace rlx::pmix {
namespace {

bool visible(const Publication& item, const ProcId& to) {
  switch (item.scope) {
    case Publication::Scope::kRank:
      return item.owner == to;
    case Publication::Scope::kJob:
      return item.owner.job == to.job;
    case Publication::Scope::kSession:
      return true;
  }
  return false;
}

bool contains(const std::vector<std::string>& keys, const std::string& key) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

}  // namespace

Status Store::publish(Publication publication) {
  for (const auto& item : published_)
    if (item.key == publication.key && item.scope == publication.scope &&
        visible(item, publication.owner))
      return fail(Code::kInvalid, fmt::format("{} is already published", publication.key));
  published_.push_back(std::move(publication));
  std::erase_if(waiting_, [this](const Waiting& w) { return answer(w.request, w.reply); });
  return {};
}

bool Store::answer(const LookupRequest& request, const Reply& reply) {
  std::vector<std::list<Publication>::iterator> found;
  for (auto it = published_.begin(); it != published_.end(); ++it)
    if (contains(request.keys, it->key) && visible(*it, request.by)) found.push_back(it);
  if (found.size() < request.wait_for) return false;
  std::vector<Publication> items;
  for (const auto it : found) {
    items.push_back(*it);
    if (it->lifetime == Publication::Lifetime::kFirstRead) published_.erase(it);
  }
  reply(items);
  return true;
}

uint64_t Store::lookup(LookupRequest request, Reply reply) {
  request.wait_for = std::min(request.wait_for, request.keys.size());
  const uint64_t ticket = next_ticket_++;
  if (!answer(request, reply)) waiting_.push_back({ticket, std::move(request), std::move(reply)});
  return ticket;
}

void Store::cancel(uint64_t ticket) {
  waiting_.remove_if([ticket](const Waiting& w) { return w.ticket == ticket; });
}

void Store::unpublish(const ProcId& owner, const std::vector<std::string>& keys) {
  published_.remove_if([&](const Publication& item) {
    return item.owner == owner && (keys.empty() || contains(keys, item.key));
  });
}

void Store::gone(const ProcId& who) {
  published_.remove_if([&](const Publication& item) {
    return covers(who, item.owner) &&
           (item.lifetime == Publication::Lifetime::kRank ||
            (item.lifetime == Publication::Lifetime::kJob && who.rank == kAllRanks));
  });
  waiting_.remove_if([&](const Waiting& w) { return covers(who, w.request.by); });
}

}  // namespace rlx::pmix
