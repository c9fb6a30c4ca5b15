// SPDX-License-Identifier: MIT OR Apache-2.0
// Peers that are gone, and what an operation that does not end waits for.
#include <fmt/core.h>

#include <algorithm>

#include "base/log.h"
#include "fabrics/endpoint_impl.h"

namespace rlx {

void Endpoint::Impl::fail_peer(int failed_rank, std::string cause, bool is_failure,
                               std::string_view how) {
  PeerState& peer = peers[failed_rank];
  if (peer.failed) return;
  peer.failed = std::make_unique<Error>(
      Error{Code::kPeerFailed, fmt::format("{} {}: {}", who(failed_rank), how, cause)});
  peer.single_bytes = -1;
  if (n_failed++ == 0) first_failed = failed_rank;
  log::debug("{}", peer.failed->text);
  if (peer.wire != nullptr) peer.wire->withdraw(failed_rank);
  fail_sends(failed_rank, *peer.failed);
  fail_receives(failed_rank, *peer.failed);
  fail_any_source(failed_rank, *peer.failed);
  if (is_failure && tell_failure) tell_failure(failed_rank, cause);
}

void Endpoint::Impl::fail_sends(int to, const Error& why) {
  PeerState& peer = peers[to];
  peer.queue = {};
  peer.streams = {};
  peer.controls.clear();
  send_pool.for_each_live([&](SendOp& op) {
    if (op.done || op.source != to) return;
    sends.remove(op.id);
    op.finish(why.code, why.text);
  });
}

void Endpoint::Impl::fail_receives(int from, const Error& why) {
  PeerState& peer = peers[from];
  while (RecvOp* op = peer.posted.front()) {
    peer.posted.erase(op);
    op->posted = false;
    op->finish(why.code, why.text);
  }
  if (peer.placed != nullptr) std::exchange(peer.placed, nullptr)->finish(why.code, why.text);
  peer.flowing.clear();
  std::erase_if(reading, [from](const Message* message) { return message->source == from; });
  message_pool.for_each_live([&](Message& message) {
    // What arrived whole stays for its receive.
    if (message.source != from || message.stage == Message::Stage::kWhole) return;
    if (message.op != nullptr) {
      message.op->message = nullptr;
      message.op->finish(why.code, why.text);
    } else {
      peer.unexpected.erase(&message);
      --n_unexpected;
    }
    drop(&message);
  });
}

void Endpoint::Impl::fail_any_source(int failed_rank, const Error& why) {
  for (RecvOp* op = posted_any.front(); op != nullptr;) {
    RecvOp* const next = op->next;
    if (in_group(op->want_tag, failed_rank)) {
      posted_any.erase(op);
      op->posted = false;
      op->finish(why.code, why.text);
    }
    op = next;
  }
}

void Endpoint::Impl::broken(int from, std::string_view what) {
  fail_peer(from, fmt::format("it sent {}", what));
}

bool Endpoint::Impl::in_group(std::uint64_t tag, int of) const {
  const auto group = groups.find(static_cast<std::uint32_t>(tag >> 32));
  return group == groups.end() ||
         std::find(group->second.begin(), group->second.end(), of) != group->second.end();
}

const Error* Endpoint::Impl::why_none_comes(int from, std::uint64_t tag) const {
  if (from != kAnySource) return peers[from].failed.get();
  if (n_failed == 0) [[likely]]
    return nullptr;
  for (int r = 0; r < size; ++r)
    if (peers[r].failed && in_group(tag, r)) return peers[r].failed.get();
  return nullptr;
}

// Who has left in good order is gone for our operations, but is no failure of the job: not every
// launcher (Slurm's) keeps ranks together until all have come to its last fence.
void Endpoint::Impl::on_down(Link peer, const Error& why) {
  if (why.code == Code::kOk) return fail_peer(peer, why.text, false);
  std::optional<std::string> better = last_word_on ? last_word_on(peer) : std::nullopt;
  fail_peer(peer, better ? *std::move(better) : why.text);
}

void Endpoint::Impl::take_reports() {
  std::vector<std::pair<int, std::string>> taken;
  {
    const std::lock_guard lock(reports_mutex);
    taken.swap(reports);
    reported.store(false, std::memory_order_relaxed);
  }
  for (auto& [failed_rank, cause] : taken) {
    PeerState& peer = peers[failed_rank];
    // What it sent before it ended still counts. Bounded: a wire that never runs dry is broken.
    for (int i = 0; i < 1000 && peer.open() && peer.wire->progress(*this) > 0; ++i) {
    }
    fail_peer(failed_rank, std::move(cause));
  }
}

void Endpoint::Impl::check() {
  for (Wire* wire : polled) wire->check(*this);
  for (std::size_t i = spare.size(); i-- > 0;)
    if (spare[i]->progress(*this) > 0) use(spare[i]);
  const std::int64_t now = now_ns();
  const auto notice = [now](auto& op) {
    if (!op.done && op.noticed_ns == 0) op.noticed_ns = now;
  };
  send_pool.for_each_live(notice);
  recv_pool.for_each_live([&](RecvOp& op) {
    notice(op);
    if (!op.done && op.from != kAnySource) nudge(op.from);
  });
}

// A wire that connects when it first sends cannot notice the death of a rank that we only wait for.
// So a wait that lasts sends something that means nothing. Not for receives from any source: they
// would connect everybody with everybody; there the bootstrap's word must do.
void Endpoint::Impl::nudge(int to) {
  PeerState& peer = peers[to];
  if (!peer.open() || peer.nudged) return;
  peer.nudged = true;
  send_control(to, {kCredit, 0, {}, 0});
}

std::string Endpoint::Impl::who(int of) const {
  const std::string& host = peers[of].host;
  return host.empty() ? fmt::format("rank {}", of) : fmt::format("rank {} ({})", of, host);
}

namespace {

std::string describe_tag(std::uint64_t tag, std::uint64_t mask) {
  if (static_cast<std::uint32_t>(mask) == 0) return "any tag";
  return fmt::format("tag {}", static_cast<std::uint32_t>(tag));
}

std::string describe_send(const SendOp& op) {
  switch (op.stage) {
    case SendOp::Stage::kQueued:
      return "it has not taken what was sent before";
    case SendOp::Stage::kAsked:
      return "it has posted no receive for it";
    default:
      return fmt::format("{} of {} bytes have left", op.n_sent, op.n_total);
  }
}

}  // namespace

std::string Endpoint::Impl::describe(const Request* request) const {
  if (request->kind == Request::Kind::kCollective) return request->text;
  if (request->kind == Request::Kind::kSend) {
    const auto& op = static_cast<const SendOp&>(*request);
    return fmt::format("send of {} bytes to {}, {}: {}", op.n_bytes, who(op.source),
                       describe_tag(op.tag, kWholeTag), describe_send(op));
  }
  const auto& op = static_cast<const RecvOp&>(*request);
  const int from = op.message != nullptr ? op.message->source : op.from;
  const std::string state =
      op.message == nullptr
          ? "nothing has arrived"
          : fmt::format("{} of {} bytes have arrived", op.message->n_arrived, op.message->n_wanted);
  return fmt::format("receive from {}, {}: {}", from == kAnySource ? "any rank" : who(from),
                     describe_tag(op.want_tag, op.mask), state);
}

void Endpoint::Impl::abandon(Request* request, std::int64_t after_ms) {
  if (request->done) return;
  const std::string text = fmt::format("after {} ms: {}", after_ms, describe(request));
  if (!cancel(request)) {
    const bool receives = request->kind == Request::Kind::kRecv;
    const RecvOp* const op = receives ? static_cast<const RecvOp*>(request) : nullptr;
    fail_peer(op ? op->message->source : request->source, text, true, "was given up");
  }
  request->cancelled = false;
  request->finish(Code::kTimeout, text);
}

std::string Endpoint::Impl::describe_unsent() {
  std::string first;
  int n_more = 0;
  send_pool.for_each_live([&](const SendOp& op) {
    if (op.has_left()) return;
    if (first.empty())
      first = describe(&op);
    else
      ++n_more;
  });
  if (first.empty()) return "the last of what was sent has not left";
  return n_more == 0 ? first : fmt::format("{}; and {} more", first, n_more);
}

int Endpoint::Impl::n_in_use(std::uint32_t context) {
  int n = 0;
  send_pool.for_each_live([&](const SendOp& op) { n += !op.done && op.tag >> 32 == context; });
  // One that is done still tells its source as a rank of the communicator.
  recv_pool.for_each_live([&](const RecvOp& op) { n += op.want_tag >> 32 == context; });
  return n;
}

std::vector<Pending> Endpoint::Impl::pending() {
  std::vector<Pending> out;
  const std::int64_t now = now_ns();
  const auto age_ms = [now](std::int64_t noticed_ns) {
    return noticed_ns == 0 ? 0 : (now - noticed_ns) / 1'000'000;
  };
  send_pool.for_each_live([&](const SendOp& op) {
    if (!op.done)
      out.push_back({op.kind, op.source, op.tag, op.n_total, op.n_sent, age_ms(op.noticed_ns),
                     describe(&op)});
  });
  recv_pool.for_each_live([&](const RecvOp& op) {
    if (op.done) return;
    const Message* const message = op.message;
    out.push_back({op.kind, message ? message->source : op.from, op.want_tag,
                   message ? message->n_wanted : op.room, message ? message->n_arrived : 0,
                   age_ms(op.noticed_ns), describe(&op)});
  });
  return out;
}

}  // namespace rlx
