// SPDX-License-Identifier: MIT OR Apache-2.0
// The sending half of the endpoint: when a message may leave, and in which form.
#include <algorithm>

#include "fabrics/endpoint_impl.h"

namespace rlx {
namespace {

constexpr int kFramesATurn = 1024;  // of one message

}  // namespace

Request* Endpoint::Impl::isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes) {
  PeerState& peer = peers[to];
  const std::uint64_t charge = charge_of(n_bytes);
  if (static_cast<std::int64_t>(n_bytes) <= peer.single_bytes && peer.queue.empty() &&
      peer.charged + charge <= kWindow) [[likely]] {
    const Frame frame{
        .type = kEager, .tag = tag, .pay = data, .n_pay = static_cast<std::uint32_t>(n_bytes)};
    if (peer.wire->post(to, frame) == Posted::kDone) [[likely]] {
      peer.charged += charge;
      return nullptr;
    }
  }
  return isend_slowly(to, tag, data, n_bytes);
}

Request* Endpoint::Impl::isend_slowly(int to, std::uint64_t tag, const void* data,
                                      std::uint64_t n_bytes) {
  SendOp* const op = send_pool.take();
  op->kind = Request::Kind::kSend;
  op->owner = this;
  op->done = op->cancelled = false;
  op->code = Code::kOk;
  op->source = to;
  op->tag = tag;
  op->n_bytes = op->n_total = n_bytes;
  op->data = static_cast<const char*>(data);
  op->n_sent = 0;
  op->n_leaving = 0;
  op->stage = SendOp::Stage::kQueued;
  op->noticed_ns = 0;
  op->unwanted = false;
  PeerState& peer = peers[to];
  if (!peer.open()) {
    if (peer.failed)
      op->finish(peer.failed->code, peer.failed->text);
    else
      op->finish(Code::kUnreachable, who(to) + " was never connected");
    return op;
  }
  op->id = sends.add(op);
  if (!peer.queue.empty() || !begin(peer, op)) {
    peer.queue.push_back(op);
    mark_busy(peer, to);
    return op;
  }
  settle(peer, op);
  if (!op->done) return op;
  release(op);
  return nullptr;
}

// Puts the head of a message on the wire, in whatever form flow control allows; false if it must
// wait. Afterwards the stage says what is left to do.
bool Endpoint::Impl::begin(PeerState& peer, SendOp* op) {
  const bool has_credit = peer.charged + charge_of(op->n_total) <= kWindow;
  const bool is_single = static_cast<std::int64_t>(op->n_total) <= peer.single_bytes;
  if (is_single && has_credit) return begin_whole(peer, op);
  const Offer offer = peer.wire->offers(op->source, op->data, op->n_total);
  if (offer == Offer::kNone && has_credit && op->n_total <= peer.caps.eager_bytes)
    return begin_stream(peer, op);
  return peer.n_asked < kMaxRequests && ask(peer, op, offer);
}

bool Endpoint::Impl::begin_whole(PeerState& peer, SendOp* op) {
  const Frame frame{.type = kEager,
                    .tag = op->tag,
                    .pay = op->data,
                    .n_pay = static_cast<std::uint32_t>(op->n_total),
                    .cookie = op->id};
  const Posted posted = peer.wire->post(op->source, frame);
  if (posted == Posted::kFull) return false;
  peer.charged += charge_of(op->n_total);
  op->n_sent = op->n_total;
  op->n_leaving = posted == Posted::kPending;
  op->stage = SendOp::Stage::kLeaving;
  return true;
}

bool Endpoint::Impl::begin_stream(PeerState& peer, SendOp* op) {
  op->stream = op->id | kSenderNumbered;
  op->n_piece = peer.piece_of(op->n_total);
  const Head head{op->n_total, op->stream, 0};
  const Frame frame{.type = kHead,
                    .tag = op->tag,
                    .ext = &head,
                    .n_ext = sizeof head,
                    .pay = op->data,
                    .n_pay = op->n_piece,
                    .cookie = op->id};
  const Posted posted = peer.wire->post(op->source, frame);
  if (posted == Posted::kFull) return false;
  peer.charged += charge_of(op->n_total);
  op->n_sent = op->n_piece;
  op->n_leaving = posted == Posted::kPending;
  op->stage = SendOp::Stage::kStreaming;
  return true;
}

bool Endpoint::Impl::ask(PeerState& peer, SendOp* op, Offer offer) {
  const Head head{op->n_total, op->id,
                  offer == Offer::kNone ? 0 : reinterpret_cast<std::uint64_t>(op->data),
                  offer == Offer::kMay};
  const Frame frame{.type = kRequest, .tag = op->tag, .ext = &head, .n_ext = sizeof head};
  if (peer.wire->post(op->source, frame) == Posted::kFull) return false;
  ++peer.n_asked;
  op->stage = SendOp::Stage::kAsked;
  return true;
}

// After begin(): carries on with what can go at once.
void Endpoint::Impl::settle(PeerState& peer, SendOp* op) {
  if (op->stage == SendOp::Stage::kLeaving && op->n_leaving == 0) finish_send(op);
  if (op->stage != SendOp::Stage::kStreaming) return;
  peer.streams.push_back(op);
  stream(peer, op);
  if (!peer.streams.empty()) mark_busy(peer, op->source);
}

bool Endpoint::Impl::stream(PeerState& peer, SendOp* op) {
  bool moved = false;
  // Now and then somebody has to look at what comes back (see RingWriter::learn()).
  for (int n_frames = 0; op->n_sent < op->n_total; ++n_frames) {
    if (n_frames == kFramesATurn) return true;
    const std::uint64_t n = std::min<std::uint64_t>(op->n_piece, op->n_total - op->n_sent);
    const Frame frame{.type = kData,
                      .tag = op->stream,
                      .pay = op->data + op->n_sent,
                      .n_pay = static_cast<std::uint32_t>(n),
                      .cookie = op->id};
    const Posted posted = peer.wire->post(op->source, frame);
    if (posted == Posted::kFull) return moved;
    op->n_leaving += posted == Posted::kPending;
    op->n_sent += n;
    moved = true;
  }
  peer.streams.erase(op);
  op->stage = SendOp::Stage::kLeaving;
  if (op->n_leaving == 0) finish_send(op);
  return moved;
}

bool Endpoint::Impl::pump(PeerState& peer, int to) {
  bool moved = false;
  while (!peer.controls.empty()) {
    if (!post_control(peer, to, peer.controls.front())) return moved;
    peer.controls.pop_front();
    moved = true;
  }
  while (SendOp* op = peer.queue.front()) {
    if (!begin(peer, op)) break;
    peer.queue.erase(op);
    settle(peer, op);
    moved = true;
  }
  for (SendOp* op = peer.streams.front(); op != nullptr;) {
    SendOp* const next = op->next;
    moved |= stream(peer, op);
    op = next;
  }
  return moved;
}

bool Endpoint::Impl::pump_busy() {
  bool moved = false;
  for (std::size_t i = 0; i < busy.size();) {
    PeerState& peer = peers[busy[i]];
    if (peer.open()) moved |= pump(peer, busy[i]);
    if (!peer.controls.empty() || !peer.queue.empty() || !peer.streams.empty()) {
      ++i;
      continue;
    }
    peer.busy = false;
    busy[i] = busy.back();
    busy.pop_back();
  }
  return moved;
}

// Nothing that anybody wants is still to be sent.
bool Endpoint::Impl::all_left() {
  bool left = busy.empty();
  send_pool.for_each_live([&](const SendOp& op) { left &= op.has_left(); });
  return left;
}

void Endpoint::Impl::mark_busy(PeerState& peer, int to) {
  if (peer.busy) return;
  peer.busy = true;
  busy.push_back(to);
}

bool Endpoint::Impl::post_control(PeerState& peer, int to, const ControlFrame& control) {
  const Frame frame{
      .type = control.type, .tag = control.tag, .ext = &control.grant, .n_ext = control.n_ext};
  return peer.wire->post(to, frame) != Posted::kFull;
}

void Endpoint::Impl::send_control(int to, const ControlFrame& control) {
  PeerState& peer = peers[to];
  if (peer.controls.empty() && post_control(peer, to, control)) return;
  peer.controls.push_back(control);
  mark_busy(peer, to);
}

void Endpoint::Impl::finish_send(SendOp* op) {
  sends.remove(op->id);
  op->finish();
}

// The send that `from` answers; a peer that answers what nobody asked breaks the protocol.
SendOp* Endpoint::Impl::asked_send(int from, std::uint64_t id) {
  SendOp* const op = sends.find(id);
  if (op == nullptr || op->source != from || op->stage != SendOp::Stage::kAsked) {
    broken(from, "an answer to a message that did not ask");
    return nullptr;
  }
  --peers[from].n_asked;
  return op;
}

void Endpoint::Impl::on_grant(int from, const FrameView& frame) {
  SendOp* const op = asked_send(from, frame.tag);
  if (op == nullptr) return;
  Grant grant;
  if (frame.n_ext != sizeof grant) return broken(from, "a grant of another length");
  std::memcpy(&grant, frame.ext, sizeof grant);
  if (grant.n_bytes > op->n_total || (grant.id & kSenderNumbered) != 0)
    return broken(from, "a grant of more than was asked for");
  op->n_total = grant.n_bytes;
  op->stream = grant.id;
  op->n_piece = peers[from].piece_of(grant.n_bytes);
  op->stage = SendOp::Stage::kStreaming;
  settle(peers[from], op);
}

void Endpoint::Impl::on_taken(int from, const FrameView& frame) {
  SendOp* const op = asked_send(from, frame.tag);
  if (op != nullptr) finish_send(op);
}

void Endpoint::Impl::on_sent(Link to, std::uint64_t cookie) {
  SendOp* const op = sends.find(cookie);
  if (op == nullptr || op->source != to || op->n_leaving == 0) return;
  --op->n_leaving;
  if (op->stage == SendOp::Stage::kLeaving && op->n_leaving == 0) finish_send(op);
}

}  // namespace rlx
