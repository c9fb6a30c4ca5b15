// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/meetings.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"

namespace rlx::pmix {
namespace {

Error gone(const ProcId& rank) {
  return {Code::kPeerFailed, fmt::format("rank {} is gone", rank.rank)};
}

}  // namespace

Meetings::Meetings(TreePlace place, Links links)
    : place_(std::move(place)), links_(std::move(links)) {
  std::vector<uint32_t> all;
  if (place_.self != kRoot) all.push_back(place_.self);
  for (const auto& child : place_.children) {
    children_[child.node] = NodeSet(child.subtree);
    all.insert(all.end(), child.subtree.begin(), child.subtree.end());
  }
  below_ = NodeSet(all);
}

Meetings::Open& Meetings::open(const Key& key, uint64_t number, const NodeSet& nodes) {
  auto [it, is_new] = series_[key].open.try_emplace(number);
  Open& open = it->second;
  if (!is_new) return open;
  open.nodes = nodes;
  open.is_top = place_.self == kRoot || nodes.is_within(below_);
  if (nodes.contains(place_.self)) open.links.push_back({place_.self});
  for (const auto& [child, subtree] : children_)
    if (subtree.intersects(nodes)) open.links.push_back({child});
  if (!open.is_top) open.links.push_back({place_.parent});
  return open;
}

Meetings::Link* Meetings::find(Open& open, uint32_t neighbour) {
  const auto it = std::find_if(open.links.begin(), open.links.end(),
                               [&](const Link& link) { return link.to == neighbour; });
  return it == open.links.end() ? nullptr : &*it;
}

void Meetings::add(const Key& key, uint64_t number, Open& open, Segment segment) {
  const uint32_t from = segment.from;
  const size_t n = segment.bytes.size();
  open.segments.push_back(std::move(segment));
  for (Link& link : open.links) {
    if (link.to == from || link.to == place_.self) continue;
    link.n_pending += n;
    if (link.n_pending >= kPiece) flush(key, number, open, link, false);
  }
}

// Data on a link: pieces, each with its node before it.
Status Meetings::add_all(const Key& key, uint64_t number, Open& open, uint32_t from,
                         std::string_view bytes) {
  ByteReader in(bytes);
  while (!in.at_end()) {
    const auto node = in.get<uint32_t>();
    const auto piece = in.get_string();
    if (!in.ok()) return fail(Code::kInvalid, "malformed data of a meeting");
    add(key, number, open, {from, node, std::string(piece)});
  }
  return {};
}

// Every node's part whole.
std::string Meetings::joined(const Open& open) {
  std::map<uint32_t, std::string> parts;
  size_t n = 0;
  for (const auto& segment : open.segments) {
    parts[segment.node] += segment.bytes;
    n += segment.bytes.size();
  }
  std::string all;
  all.reserve(n);
  for (const auto& [node, part] : parts) all += part;
  return all;
}

void Meetings::flush(const Key& key, uint64_t number, const Open& open, Link& link, bool last) {
  Frame frame;
  frame.kind = !open.is_top && link.to == place_.parent ? Frame::Kind::kPart : Frame::Kind::kDone;
  frame.what = static_cast<uint8_t>(key.kind);
  frame.id = number;
  frame.last = last;
  frame.procs = key.procs;
  frame.nodes = open.nodes;
  ByteWriter data;
  for (; link.next < open.segments.size(); ++link.next) {
    const auto& segment = open.segments[link.next];
    if (segment.from == link.to) continue;
    data.put(segment.node);
    data.put_string(segment.bytes);
  }
  frame.data = data.take();
  link.n_pending = 0;
  links_.send(link.to, frame);
}

// When all below have given their parts: up with them, or round.
void Meetings::step(const Key& key, uint64_t number, Open& open) {
  for (const Link& link : open.links)
    if (link.waiting && (open.is_top || link.to != place_.parent)) return;
  if (open.is_top)
    finish(key, number, {});
  else
    flush(key, number, open, open.links.back(), true);
}

void Meetings::fail_one(const Key& key, uint64_t number, Open& open, const Error& error) {
  if (open.is_top) return finish(key, number, tl::unexpected(error));
  if (std::exchange(open.failed, true)) return;
  Frame frame;
  frame.kind = Frame::Kind::kPart;
  frame.what = static_cast<uint8_t>(key.kind);
  frame.id = number;
  frame.procs = key.procs;
  frame.nodes = open.nodes;
  frame.code = error.code;
  frame.data = error.text;
  links_.send(place_.parent, frame);
}

// Tells those below, and our own server.
void Meetings::finish(const Key& key, uint64_t number, const Status& status) {
  Series& series = series_[key];
  auto node = series.open.extract(number);
  if (node.empty()) return;
  Open& open = node.mapped();
  series.over = std::max(series.over, number);
  bool is_ours = false;
  for (Link& link : open.links) {
    if (link.to == place_.self) is_ours = true;
    if (link.to == place_.self || (!open.is_top && link.to == place_.parent)) continue;
    if (status) {
      flush(key, number, open, link, true);
      continue;
    }
    Frame frame;
    frame.kind = Frame::Kind::kDone;
    frame.what = static_cast<uint8_t>(key.kind);
    frame.id = number;
    frame.procs = key.procs;
    frame.nodes = open.nodes;
    frame.code = status.error().code;
    frame.data = status.error().text;
    links_.send(link.to, frame);
  }
  if (!is_ours) return;
  Result<std::string> all =
      status ? Result<std::string>(joined(open)) : tl::unexpected(status.error());
  if (open.reply)
    open.reply(std::move(all));
  else
    series.early.emplace(number, std::move(all));
}

void Meetings::enter(Meeting kind, const std::vector<ProcId>& procs, NodeSet nodes,
                     Result<std::string> part, Exchange::BytesReply reply) {
  const Key key{kind, procs};
  Series& series = series_[key];
  const uint64_t number = ++series.n_entered;
  if (auto early = series.early.extract(number)) return reply(std::move(early.mapped()));
  if (const auto dead = covered(key, failed_); !dead.empty())
    return reply(tl::unexpected(gone(dead.front())));
  if (nodes.is_within(NodeSet({place_.self}))) return reply(std::move(part));
  if (series.over >= number)
    return reply(fail(Code::kPeerFailed, "the meeting ended without this node"));
  Open& entered = open(key, number, nodes);
  entered.reply = std::move(reply);
  if (!part) {
    fail_one(key, number, entered, part.error());
    return;
  }
  for (size_t at = 0; at < part->size(); at += kPiece)
    add(key, number, entered, {place_.self, place_.self, part->substr(at, kPiece)});
  if (Link* own = find(entered, place_.self)) own->waiting = false;
  if (!entered.failed) step(key, number, entered);
  look_for_awaited(key);
}

Status Meetings::part(uint32_t child, Frame frame) {
  const Key key{static_cast<Meeting>(frame.what), std::move(frame.procs)};
  if (!covered(key, failed_).empty()) return {};  // its server knows, or is about to
  const auto known = series_.find(key);
  if (known != series_.end() && known->second.over >= frame.id) return {};
  Open& entered = open(key, frame.id, frame.nodes);
  Link* link = find(entered, child);
  if (link == nullptr || !link->waiting || (!entered.is_top && child == place_.parent))
    return fail(Code::kInvalid, fmt::format("node {} takes part twice, or uninvited", child));
  if (frame.last) link->waiting = false;
  if (entered.failed) return {};
  if (frame.code != Code::kOk) {
    fail_one(key, frame.id, entered, {frame.code, frame.data});
    return {};
  }
  RLX_TRY(add_all(key, frame.id, entered, child, frame.data));
  if (frame.last) step(key, frame.id, entered);
  look_for_awaited(key);
  return {};
}

Status Meetings::done(Frame frame) {
  const Key key{static_cast<Meeting>(frame.what), std::move(frame.procs)};
  if (!covered(key, failed_).empty()) return {};
  const auto known = series_.find(key);
  if (known != series_.end() && known->second.over >= frame.id) return {};
  Open& entered = open(key, frame.id, frame.nodes);
  if (frame.code != Code::kOk) {
    finish(key, frame.id, fail(frame.code, std::move(frame.data)));
    return {};
  }
  RLX_TRY(add_all(key, frame.id, entered, place_.parent, frame.data));
  if (frame.last) finish(key, frame.id, {});
  return {};
}

// Ranks of the key that are in `ranks`; of a whole job, the first.
std::vector<ProcId> Meetings::covered(const Key& key, const Ranks& ranks) {
  std::vector<ProcId> out;
  if (ranks.empty()) return out;
  for (const auto& proc : key.procs) {
    const auto job = ranks.find(proc.job);
    if (job == ranks.end() || job->second.empty()) continue;
    if (proc.rank == kAllRanks)
      out.push_back({proc.job, *job->second.begin()});
    else if (job->second.contains(proc.rank))
      out.push_back(proc);
  }
  return out;
}

void Meetings::look_for_awaited(const Key& key) {
  const auto series = series_.find(key);
  if (series == series_.end() || series->second.open.empty()) return;
  for (const auto& rank : covered(key, ended_)) {
    ended_[rank.job].erase(rank.rank);
    links_.awaited(rank);
  }
}

void Meetings::rank_ended(const ProcId& rank) {
  ended_[rank.job].insert(rank.rank);
  std::vector<Key> keys;
  for (const auto& [key, series] : series_)
    if (!series.open.empty() && covers(key.procs, rank)) keys.push_back(key);
  for (const auto& key : keys) look_for_awaited(key);
}

void Meetings::rank_failed(const ProcId& rank) {
  failed_[rank.job].insert(rank.rank);
  forget([&](const Key& key) { return covers(key.procs, rank); }, gone(rank), false);
}

void Meetings::job_over(const std::string& job) {
  forget(
      [&](const Key& key) {
        return std::any_of(key.procs.begin(), key.procs.end(),
                           [&](const ProcId& proc) { return proc.job == job; });
      },
      {Code::kPeerFailed, "job " + job + " is over"}, true);
  ended_.erase(job);
  failed_.erase(job);
}

void Meetings::forget(const std::function<bool(const Key&)>& which, const Error& why,
                      bool for_good) {
  std::vector<Exchange::BytesReply> replies;
  for (auto it = series_.begin(); it != series_.end();) {
    if (!which(it->first)) {
      ++it;
      continue;
    }
    Series& series = it->second;
    for (auto& [number, open] : series.open) {
      series.over = std::max(series.over, number);
      if (open.reply) replies.push_back(std::move(open.reply));
    }
    series.open.clear();
    it = for_good ? series_.erase(it) : std::next(it);
  }
  // Last: they may enter the next meeting from inside.
  for (const auto& reply : replies) reply(tl::unexpected(why));
}

bool Meetings::idle() const {
  return std::all_of(series_.begin(), series_.end(),
                     [](const auto& entry) { return entry.second.open.empty(); });
}

}  // namespace rlx::pmix
