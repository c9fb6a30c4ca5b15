// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/tree_root.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

namespace rlx::pmix {

using Kind = Frame::Kind;

TreeRoot::TreeRoot(const TreePlace& place, Carrier& carrier)
    : place_(place),
      carrier_(carrier),
      meetings_(place,
                {[this](uint32_t to, const Frame& frame) { carrier_.send(to, encode(frame)); },
                 [this](const ProcId& rank) {
                   Frame frame;
                   frame.kind = Kind::kEnded;
                   frame.proc = rank;
                   rank_ended(frame);
                 }}) {}

void TreeRoot::to_children(const Frame& frame) {
  for (const auto& child : place_.children) carrier_.send(child.node, encode(frame));
}

void TreeRoot::register_job(const Job& job) {
  JobRecord& record = jobs_[job.name];
  for (const auto& place : job.ranks) record.nodes.push_back(place.node);
  record.ended.resize(job.ranks.size());
}

void TreeRoot::deregister_job(const std::string& name) {
  if (jobs_.erase(name) == 0) return;
  std::erase_if(told_, [&](const ProcId& rank) { return rank.job == name; });
  store_.gone({name, kAllRanks});
  meetings_.job_over(name);
  Frame frame;
  frame.kind = Kind::kJobOver;
  frame.proc.job = name;
  to_children(frame);
}

void TreeRoot::mark_ended(const ProcId& rank) {
  store_.gone(rank);
  const auto job = jobs_.find(rank.job);
  if (job == jobs_.end() || rank.rank >= job->second.ended.size()) return;
  JobRecord& record = job->second;
  if (record.ended[rank.rank]) return;
  record.ended[rank.rank] = true;
  if (++record.n_ended == record.ended.size()) deregister_job(rank.job);
}

// `last`: everybody is told, because the rank failed or somebody waits for it.
void TreeRoot::rank_ended(const Frame& frame) {
  if (!jobs_.contains(frame.proc.job)) return;
  if (frame.last) {
    if (!told_.insert(frame.proc).second) return;
    meetings_.rank_failed(frame.proc);
    to_children(frame);
  } else {
    meetings_.rank_ended(frame.proc);
  }
  mark_ended(frame.proc);
}

void TreeRoot::node_lost(uint32_t node) {
  std::erase_if(place_.children, [node](const auto& child) { return child.node == node; });
  std::erase_if(lookups_, [&](const auto& entry) {
    if (entry.first.first != node) return false;
    store_.cancel(entry.second);
    return true;
  });
  Frame frame;
  frame.kind = Kind::kNodeLost;
  frame.id = node;
  to_children(frame);
  std::vector<ProcId> ranks;
  for (const auto& [name, job] : jobs_)
    for (uint32_t r = 0; r < job.nodes.size(); ++r)
      if (job.nodes[r] == node && !job.ended[r]) ranks.push_back({name, r});
  for (const auto& rank : ranks) {
    meetings_.rank_failed(rank);
    mark_ended(rank);
  }
}

Status TreeRoot::deliver(uint32_t from, std::string_view bytes) {
  RLX_TRY_ASSIGN(Frame frame, decode(bytes));
  switch (frame.kind) {
    case Kind::kPart:
      return meetings_.part(from, std::move(frame));
    case Kind::kEnded:
      rank_ended(frame);
      return {};
    case Kind::kEvent:
      to_children(frame);
      return {};
    case Kind::kPublish:
      return publish(from, frame);
    case Kind::kLookup:
      lookup(from, std::move(frame));
      return {};
    case Kind::kCancel:
      if (const auto ticket = lookups_.extract(Asker{from, frame.id}))
        store_.cancel(ticket.mapped());
      return {};
    case Kind::kUnpublish:
      store_.unpublish(frame.proc, frame.keys);
      answer({from, frame.id}, {}, {});
      return {};
    default:
      return fail(Code::kInvalid,
                  fmt::format("node {} sends to the root what it does not do", from));
  }
}

void TreeRoot::answer(const Asker& asker, const Status& status, std::string data) {
  Frame frame;
  frame.kind = Kind::kReply;
  frame.id = asker.second;
  frame.code = status ? Code::kOk : status.error().code;
  if (status)
    frame.data = std::move(data);
  else
    frame.data = status.error().text;
  carrier_.send(asker.first, encode(frame));
}

Status TreeRoot::publish(uint32_t from, const Frame& frame) {
  RLX_TRY_ASSIGN(auto items, decode_publications(frame.data));
  Status all;
  for (auto& item : items)
    if (Status status = store_.publish(std::move(item)); !status) all = std::move(status);
  answer({from, frame.id}, all, {});
  return {};
}

void TreeRoot::lookup(uint32_t from, Frame frame) {
  const Asker asker{from, frame.id};
  LookupRequest request{frame.proc, std::move(frame.keys),
                        static_cast<size_t>(std::max(frame.value, 0))};
  const auto answered = std::make_shared<bool>(false);
  const uint64_t ticket = store_.lookup(
      std::move(request), [this, asker, answered](const std::vector<Publication>& found) {
        *answered = true;
        lookups_.erase(asker);
        answer(asker, {}, encode(found));
      });
  if (!*answered) lookups_[asker] = ticket;
}

}  // namespace rlx::pmix
