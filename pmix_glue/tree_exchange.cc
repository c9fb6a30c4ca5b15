// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/tree_exchange.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"

namespace rlx::pmix {

using Kind = Frame::Kind;

TreeExchange::TreeExchange(const TreePlace& place, Carrier& carrier)
    : place_(place),
      carrier_(carrier),
      meetings_(place, {[this](uint32_t to, const Frame& frame) { send(to, frame); },
                        [this](const ProcId& rank) {
                          Frame frame;
                          frame.kind = Kind::kEnded;
                          frame.proc = rank;
                          send(place_.parent, frame);
                        }}) {}

void TreeExchange::send(uint32_t to, const Frame& frame) { carrier_.send(to, encode(frame)); }

void TreeExchange::to_children(const Frame& frame) {
  for (const auto& child : place_.children) send(child.node, frame);
}

uint64_t TreeExchange::ask(uint32_t node, Frame frame, std::optional<ProcId> owner,
                           BytesReply reply) {
  if (lost_.contains(node)) {
    reply(fail(Code::kPeerFailed, fmt::format("node {} is lost", node)));
    return 0;
  }
  if (frame.data.size() > kMaxFrame) {
    reply(
        fail(Code::kNoMemory, fmt::format("{} bytes are too many to publish", frame.data.size())));
    return 0;
  }
  frame.id = next_id_++;
  pending_[frame.id] = {node, std::move(owner), std::move(reply)};
  send(node, frame);
  return frame.id;
}

void TreeExchange::job_registered(const Job& job) {
  auto& nodes = jobs_[job.name];
  for (const auto& place : job.ranks) nodes.push_back(place.node);
}

void TreeExchange::job_deregistered(const std::string& job) { jobs_.erase(job); }

void TreeExchange::meet(Meeting kind, const std::vector<ProcId>& procs, Result<std::string> part,
                        BytesReply reply) {
  std::vector<uint32_t> nodes;
  for (const auto& proc : procs) {
    const auto job = jobs_.find(proc.job);
    if (job == jobs_.end())
      return reply(fail(Code::kInvalid, "job " + proc.job + " is not known here"));
    if (proc.rank == kAllRanks)
      nodes.insert(nodes.end(), job->second.begin(), job->second.end());
    else if (proc.rank < job->second.size())
      nodes.push_back(job->second[proc.rank]);
    else
      return reply(fail(Code::kInvalid, fmt::format("job {} has no rank {}", proc.job, proc.rank)));
  }
  meetings_.enter(kind, procs, NodeSet(std::move(nodes)), std::move(part), std::move(reply));
}

void TreeExchange::fetch(const ProcId& owner, BytesReply reply) {
  const auto job = jobs_.find(owner.job);
  if (job == jobs_.end() || owner.rank >= job->second.size())
    return reply(
        fail(Code::kInvalid, fmt::format("no rank {} of job {} is known", owner.rank, owner.job)));
  Frame frame;
  frame.kind = Kind::kFetch;
  frame.proc = owner;
  ask(job->second[owner.rank], std::move(frame), owner, std::move(reply));
}

void TreeExchange::processes(const std::string& job, TableReply reply) {
  const auto known = jobs_.find(job);
  std::vector<uint32_t> nodes;
  if (known != jobs_.end()) nodes = known->second;
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  std::erase(nodes, place_.self);
  if (nodes.empty()) return reply({});
  struct Answers {
    size_t n_missing;
    std::vector<Process> table;
  };
  auto answers = std::make_shared<Answers>(Answers{nodes.size(), {}});
  for (const uint32_t node : nodes) {
    Frame frame;
    frame.kind = Kind::kProcesses;
    frame.proc.job = job;
    ask(node, std::move(frame), std::nullopt, [answers, reply](const Result<std::string>& bytes) {
      if (bytes)
        if (const auto rows = decode_processes(*bytes))
          answers->table.insert(answers->table.end(), rows->begin(), rows->end());
      if (--answers->n_missing == 0) reply(std::move(answers->table));
    });
  }
}

void TreeExchange::tell(const std::string& event) {
  if (event.size() > kMaxFrame) return log::warn("an event of {} bytes stays here", event.size());
  Frame frame;
  frame.kind = Kind::kEvent;
  frame.id = place_.self;
  frame.data = event;
  send(place_.parent, frame);
}

void TreeExchange::publish(Publication publication, StatusReply reply) {
  Frame frame;
  frame.kind = Kind::kPublish;
  frame.data = encode(std::vector<Publication>{std::move(publication)});
  ask(kRoot, std::move(frame), std::nullopt, [reply](const Result<std::string>& bytes) {
    reply(bytes ? Status() : tl::unexpected(bytes.error()));
  });
}

uint64_t TreeExchange::lookup(LookupRequest request, Store::Reply reply) {
  Frame frame;
  frame.kind = Kind::kLookup;
  frame.proc = request.by;
  frame.keys = std::move(request.keys);
  frame.value = static_cast<int32_t>(std::min<size_t>(request.wait_for, frame.keys.size()));
  return ask(kRoot, std::move(frame), std::nullopt, [reply](const Result<std::string>& bytes) {
    const auto items = bytes ? decode_publications(*bytes) : tl::unexpected(bytes.error());
    reply(items ? *items : std::vector<Publication>());
  });
}

void TreeExchange::cancel(uint64_t ticket) {
  if (pending_.erase(ticket) == 0) return;
  Frame frame;
  frame.kind = Kind::kCancel;
  frame.id = ticket;
  send(kRoot, frame);
}

void TreeExchange::unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                             StatusReply reply) {
  Frame frame;
  frame.kind = Kind::kUnpublish;
  frame.proc = owner;
  frame.keys = keys;
  ask(kRoot, std::move(frame), std::nullopt, [reply](const Result<std::string>& bytes) {
    reply(bytes ? Status() : tl::unexpected(bytes.error()));
  });
}

void TreeExchange::ended(const ProcId& rank, const Ending& ending) {
  Frame frame;
  frame.kind = Kind::kEnded;
  frame.proc = rank;
  frame.what = static_cast<uint8_t>(ending.kind);
  frame.value = ending.value;
  frame.last = ending.is_failure();  // for everybody at once
  send(place_.parent, frame);
  if (ending.is_failure())
    meetings_.rank_failed(rank);
  else
    meetings_.rank_ended(rank);
}

Status TreeExchange::deliver(uint32_t from, std::string_view bytes) {
  RLX_TRY_ASSIGN(Frame frame, decode(bytes));
  const bool is_child =
      std::any_of(place_.children.begin(), place_.children.end(),
                  [from](const TreePlace::Child& child) { return child.node == from; });
  switch (frame.kind) {
    case Kind::kPart:
    case Kind::kDone:
    case Kind::kEnded:
    case Kind::kNodeLost:
    case Kind::kJobOver:
    case Kind::kEvent:
      if (is_child) return from_below(from, std::move(frame));
      if (from != place_.parent)
        return fail(Code::kInvalid, fmt::format("node {} is no neighbour in the tree", from));
      return from_above(std::move(frame));
    default:
      return from_anywhere(from, std::move(frame));
  }
}

Status TreeExchange::from_below(uint32_t from, Frame frame) {
  switch (frame.kind) {
    case Kind::kPart:
      return meetings_.part(from, std::move(frame));
    case Kind::kEnded:
      send(place_.parent, frame);
      if (!frame.last) meetings_.rank_ended(frame.proc);
      return {};
    case Kind::kEvent:
      send(place_.parent, frame);
      return {};
    default:
      return fail(Code::kInvalid, fmt::format("node {} sends up what only comes down", from));
  }
}

Status TreeExchange::from_above(Frame frame) {
  if (frame.kind == Kind::kDone) return meetings_.done(std::move(frame));
  to_children(frame);
  switch (frame.kind) {
    case Kind::kEnded:
      peer_ended(frame.proc, {static_cast<Ending::Kind>(frame.what), frame.value});
      return {};
    case Kind::kNodeLost:
      node_lost(static_cast<uint32_t>(frame.id));
      return {};
    case Kind::kJobOver:
      meetings_.job_over(frame.proc.job);
      return {};
    case Kind::kEvent:
      if (frame.id != place_.self && home_ != nullptr) home_->told(frame.data);
      return {};
    default:
      return fail(Code::kInvalid, "what goes up comes down");
  }
}

Status TreeExchange::from_anywhere(uint32_t from, Frame frame) {
  switch (frame.kind) {
    case Kind::kFetch:
      if (home_ == nullptr) return {};
      home_->read(frame.proc, [this, from, id = frame.id](const Result<std::string>& bytes) {
        answer(from, id, bytes);
      });
      return {};
    case Kind::kProcesses:
      if (home_ != nullptr) answer(from, frame.id, encode(home_->processes(frame.proc.job)));
      return {};
    case Kind::kReply: {
      auto asked = pending_.find(frame.id);
      if (asked == pending_.end()) return {};  // given up
      if (asked->second.node != from)
        return fail(Code::kInvalid, fmt::format("node {} answers what it was not asked", from));
      const auto reply = std::move(asked->second.reply);
      pending_.erase(asked);
      reply(frame.code == Code::kOk ? Result<std::string>(std::move(frame.data))
                                    : fail(frame.code, std::move(frame.data)));
      return {};
    }
    default:
      return fail(Code::kInvalid, fmt::format("node {} asks for what only the root does", from));
  }
}

void TreeExchange::answer(uint32_t to, uint64_t id, const Result<std::string>& result) {
  Frame frame;
  frame.kind = Kind::kReply;
  frame.id = id;
  frame.code = result ? Code::kOk : result.error().code;
  frame.data = result ? *result : result.error().text;
  if (frame.data.size() > kMaxFrame) {
    frame.code = Code::kNoMemory;
    frame.data = "what the rank has put is too long to read directly";
  }
  send(to, frame);
}

void TreeExchange::peer_ended(const ProcId& rank, const Ending& ending) {
  meetings_.rank_failed(rank);
  fail_pending([&](const Pending& pending) { return pending.owner == rank && ending.is_failure(); },
               {Code::kPeerFailed, fmt::format("rank {} is gone", rank.rank)});
  const auto job = jobs_.find(rank.job);
  const bool is_ours =
      job != jobs_.end() && rank.rank < job->second.size() && job->second[rank.rank] == place_.self;
  if (home_ != nullptr && !is_ours) home_->peer_ended(rank, ending);
}

void TreeExchange::node_lost(uint32_t node) {
  lost_.insert(node);
  std::vector<ProcId> ranks;
  for (const auto& [name, nodes] : jobs_)
    for (uint32_t r = 0; r < nodes.size(); ++r)
      if (nodes[r] == node) ranks.push_back({name, r});
  for (const auto& rank : ranks) peer_ended(rank, {Ending::Kind::kNodeLost, 0});
  fail_pending([node](const Pending& pending) { return pending.node == node; },
               {Code::kPeerFailed, fmt::format("node {} is lost", node)});
}

void TreeExchange::fail_pending(const std::function<bool(const Pending&)>& which,
                                const Error& why) {
  std::vector<BytesReply> replies;
  std::erase_if(pending_, [&](auto& entry) {
    if (!which(entry.second)) return false;
    replies.push_back(std::move(entry.second.reply));
    return true;
  });
  for (const auto& reply : replies) reply(tl::unexpected(why));
}

}  // namespace rlx::pmix
