// SPDX-License-Identifier: MIT OR Apache-2.0
// The receiving half of the endpoint: matching, and where arriving bytes go.
#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "fabrics/copy.h"
#include "fabrics/endpoint_impl.h"

namespace rlx {

Request* Endpoint::Impl::irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                               std::uint64_t n_bytes) {
  RecvOp* const op = recv_pool.take();
  op->kind = Request::Kind::kRecv;
  op->owner = this;
  op->done = op->cancelled = false;
  op->code = Code::kOk;
  op->source = from;
  op->n_bytes = 0;
  op->want_tag = op->tag = tag;
  op->mask = mask;
  op->data = static_cast<char*>(data);
  op->room = n_bytes;
  op->from = from;
  op->posted = false;
  op->message = nullptr;
  op->noticed_ns = 0;
  if (n_unexpected != 0)
    if (Message* message = find_unexpected(from, tag, mask)) {
      take_message(message, op);
      return op;
    }
  if (from == kAnySource) {
    if (const Error* why = why_none_comes(from, tag)) [[unlikely]] {
      op->finish(why->code, why->text);
      return op;
    }
  } else if (peers[from].single_bytes < 0) [[unlikely]] {
    const Error* why = peers[from].failed.get();
    op->finish(why ? why->code : Code::kUnreachable,
               why ? why->text : who(from) + " was never connected");
    return op;
  }
  op->order = ++n_posted;
  op->posted = true;
  (from == kAnySource ? posted_any : peers[from].posted).push_back(op);
  return op;
}

std::optional<Envelope> Endpoint::Impl::iprobe(int from, std::uint64_t tag,
                                               std::uint64_t mask) const {
  if (n_unexpected == 0) return std::nullopt;
  const Message* const message = find_unexpected(from, tag, mask);
  if (message == nullptr) return std::nullopt;
  return Envelope{message->source, message->tag, message->n_bytes};
}

bool Endpoint::Impl::cancel(Request* request) {
  if (request->kind == Request::Kind::kSend) static_cast<SendOp*>(request)->unwanted = true;
  if (request->kind != Request::Kind::kRecv || request->done) return false;
  auto* const op = static_cast<RecvOp*>(request);
  if (!op->posted) return false;
  (op->from == kAnySource ? posted_any : peers[op->from].posted).erase(op);
  op->posted = false;
  op->cancelled = true;
  op->finish(Code::kCancelled, "the receive was cancelled");
  return true;
}

// From one peer the first that matches; from any the one that arrived first.
Message* Endpoint::Impl::find_unexpected(int from, std::uint64_t tag, std::uint64_t mask) const {
  const auto first_of = [&](const PeerState& peer) {
    Message* message = peer.unexpected.front();
    while (message != nullptr && ((message->tag ^ tag) & mask) != 0) message = message->next;
    return message;
  };
  if (from != kAnySource) return first_of(peers[from]);
  Message* best = nullptr;
  for (const PeerState& peer : peers) {
    Message* const message = first_of(peer);
    if (message != nullptr && (best == nullptr || message->order < best->order)) best = message;
  }
  return best;
}

// The receive that was posted first of those that accept the message; no longer posted then.
RecvOp* Endpoint::Impl::take_posted(int from, std::uint64_t tag) {
  List<RecvOp>& list = peers[from].posted;
  RecvOp* op = list.front();
  while (op != nullptr && !op->accepts(tag)) op = op->next;
  RecvOp* any = posted_any.front();
  while (any != nullptr && !any->accepts(tag)) any = any->next;
  if (any != nullptr && (op == nullptr || any->order < op->order)) {
    posted_any.erase(any);
    any->posted = false;
    return any;
  }
  if (op == nullptr) return nullptr;
  list.erase(op);
  op->posted = false;
  return op;
}

// A receive takes a message that arrived before it.
void Endpoint::Impl::take_message(Message* message, RecvOp* op) {
  peers[message->source].unexpected.erase(message);
  --n_unexpected;
  message->op = op;
  op->message = message;
  if (message->stage == Message::Stage::kAsked) return answer(message);
  const std::uint64_t n = std::min(message->n_arrived, op->room);
  copy_bytes(op->data, message->data.get(), n);
  message->data.reset();
  give_back(message->source, charge_of(message->n_bytes));
  if (message->stage == Message::Stage::kWhole) complete(message);
}

void Endpoint::Impl::on_eager(int from, const FrameView& frame) {
  PeerState& peer = peers[from];
  const std::uint64_t charge = charge_of(frame.n_pay);
  if (!hold(from, charge)) return;
  RecvOp* const op =
      peer.placed != nullptr ? std::exchange(peer.placed, nullptr) : take_posted(from, frame.tag);
  if (op != nullptr) [[likely]] {
    const std::uint64_t n = std::min<std::uint64_t>(frame.n_pay, op->room);
    if (frame.pay != op->data) copy_bytes(op->data, frame.pay, n);
    finish_recv(op, from, frame.tag, frame.n_pay);
    give_back(from, charge);
    return;
  }
  Message* const message = new_message(from, frame.tag, frame.n_pay, Message::Stage::kWhole);
  message->data.reset(new char[frame.n_pay]);
  append(message, frame.pay, frame.n_pay);
  store_unexpected(message);
}

void Endpoint::Impl::on_head(int from, const FrameView& frame) {
  Head head;
  if (frame.n_ext != sizeof head) return broken(from, "a head of another length");
  std::memcpy(&head, frame.ext, sizeof head);
  if (head.n_bytes > kWindow || frame.n_pay >= head.n_bytes || (head.id & kSenderNumbered) == 0 ||
      find_flow(peers[from], head.id) != nullptr)
    return broken(from, "a head that makes no sense");
  if (!hold(from, charge_of(head.n_bytes))) return;
  Message* const message = new_message(from, frame.tag, head.n_bytes, Message::Stage::kStream);
  message->id = head.id;
  start_flow(message);
  if (RecvOp* op = take_posted(from, frame.tag)) {
    message->op = op;
    op->message = message;
    give_back(from, charge_of(head.n_bytes));
  } else {
    message->data.reset(new char[head.n_bytes]);
    store_unexpected(message);
  }
  append(message, frame.pay, frame.n_pay);
}

void Endpoint::Impl::on_data(int from, const FrameView& frame) {
  Message* const message = find_flow(peers[from], frame.tag);
  if (message == nullptr || frame.n_pay > message->n_wanted - message->n_arrived)
    return broken(from, "data that nobody granted");
  append(message, frame.pay, frame.n_pay);
  if (message->n_arrived != message->n_wanted) return;
  end_flow(message);
  if (message->op != nullptr)
    complete(message);
  else
    message->stage = Message::Stage::kWhole;
}

void Endpoint::Impl::on_request(int from, const FrameView& frame) {
  Head head;
  if (frame.n_ext != sizeof head) return broken(from, "a request of another length");
  std::memcpy(&head, frame.ext, sizeof head);
  if (++peers[from].n_requests > kMaxRequests) return broken(from, "more requests than allowed");
  Message* const message = new_message(from, frame.tag, head.n_bytes, Message::Stage::kAsked);
  message->id = head.id;
  message->address = head.address;
  message->may_choose = head.may_choose != 0;
  RecvOp* const op = take_posted(from, frame.tag);
  if (op == nullptr) return store_unexpected(message);
  message->op = op;
  op->message = message;
  answer(message);
}

Message* Endpoint::Impl::new_message(int from, std::uint64_t tag, std::uint64_t n_bytes,
                                     Message::Stage stage) {
  Message* const message = message_pool.take();
  message->source = from;
  message->tag = tag;
  message->n_bytes = message->n_wanted = n_bytes;
  message->n_arrived = 0;
  message->id = message->address = 0;
  message->began_ns = 0;
  message->may_choose = false;
  message->op = nullptr;
  message->stage = stage;
  return message;
}

void Endpoint::Impl::store_unexpected(Message* message) {
  message->order = ++n_arrived;
  peers[message->source].unexpected.push_back(message);
  ++n_unexpected;
}

void Endpoint::Impl::start_flow(Message* message) {
  peers[message->source].flowing.push_back(message);
}

void Endpoint::Impl::end_flow(Message* message) {
  std::erase(peers[message->source].flowing, message);
}

Message* Endpoint::Impl::find_flow(PeerState& peer, std::uint64_t id) {
  const std::size_t n = peer.flowing.size();
  // Frames of one stream come in runs.
  for (std::size_t i = 0; i < n; ++i, ++peer.last_flow) {
    if (peer.last_flow >= n) peer.last_flow = 0;
    if (peer.flowing[peer.last_flow]->id == id) return peer.flowing[peer.last_flow];
  }
  return nullptr;
}

// The next n bytes of a message, to its receive or to where it waits for one.
void Endpoint::Impl::append(Message* message, const char* data, std::uint64_t n) {
  char* const base = message->op != nullptr ? message->op->data : message->data.get();
  const std::uint64_t room = message->op != nullptr ? message->op->room : message->n_bytes;
  const std::uint64_t at = message->n_arrived;
  const std::uint64_t n_kept = at < room ? std::min(n, room - at) : 0;
  if (data != base + at) copy_bytes(base + at, data, n_kept);
  message->n_arrived += n;
}

// A request has met its receive: read it from the sender's memory or let the sender send it.
void Endpoint::Impl::answer(Message* message) {
  --peers[message->source].n_requests;
  message->n_wanted = std::min(message->n_bytes, message->op->room);
  if (message->address == 0 || message->n_wanted == 0) return grant(message);
  if (message->may_choose) {
    message->began_ns = now_ns();
    if (peers[message->source].faster_way.choose(message->n_wanted) == Take::kSent)
      return grant(message);
  }
  message->stage = Message::Stage::kReading;
  if (read_on(message) != Read::done) reading.push_back(message);
}

void Endpoint::Impl::grant(Message* message) {
  const std::uint64_t asked = message->id;
  message->id = ++n_streams;
  message->stage = Message::Stage::kStream;
  message->n_arrived = 0;
  if (message->n_wanted != 0) start_flow(message);
  send_control(message->source, {kGrant, asked, {message->n_wanted, message->id}, sizeof(Grant)});
  if (message->n_wanted == 0) complete(message);
}

// The next slice. `done`: no more is to be read.
Endpoint::Impl::Read Endpoint::Impl::read_on(Message* message) {
  const std::uint64_t at = message->n_arrived;
  const std::uint64_t n = std::min(kReadSlice, message->n_wanted - at);
  const Status got = peers[message->source].wire->read(message->source, {message->address + at, n},
                                                       message->op->data + at);
  if (!got && got.error().code == Code::kPeerFailed) return Read::gone;
  if (!got) {
    log::debug("{}; it is sent instead", got.error().text);
    message->began_ns = 0;
    grant(message);
    return Read::done;
  }
  message->n_arrived += n;
  if (message->n_arrived != message->n_wanted) return Read::again;
  send_control(message->source, {kTaken, message->id, {}, 0});
  complete(message);
  return Read::done;
}

bool Endpoint::Impl::read_all() {
  int gone = -1;
  std::erase_if(reading, [&](Message* message) {
    const Read read = read_on(message);
    if (read == Read::gone) gone = message->source;
    return read == Read::done;
  });
  // Takes its messages out of `reading`. Of several, the others follow in the next turn.
  if (gone >= 0) fail_peer(gone, "what it offered to be read it has withdrawn");
  return true;
}

void Endpoint::Impl::finish_recv(RecvOp* op, int source, std::uint64_t tag, std::uint64_t n_bytes) {
  op->source = source;
  op->tag = tag;
  op->message = nullptr;
  op->n_bytes = std::min(n_bytes, op->room);
  if (n_bytes <= op->room) [[likely]]
    return op->finish();
  op->n_whole = n_bytes;
  op->finish(Code::kTruncated,
             fmt::format("the message of {} bytes from {} with tag {} is longer than the {} bytes "
                         "that its receive has room for",
                         n_bytes, who(source), static_cast<std::uint32_t>(tag), op->room));
}

void Endpoint::Impl::complete(Message* message) {
  if (message->began_ns != 0) {
    PeerState& peer = peers[message->source];
    const bool read = message->stage == Message::Stage::kReading;
    // Of several at once each waits for those before it.
    const std::int64_t now = now_ns(), began = std::max(message->began_ns, peer.taken_ns);
    peer.faster_way.took(read ? Take::kRead : Take::kSent, message->n_wanted, now - began);
    peer.taken_ns = now;
  }
  finish_recv(message->op, message->source, message->tag, message->n_bytes);
  drop(message);
}

void Endpoint::Impl::drop(Message* message) {
  message->data.reset();
  message->op = nullptr;
  message_pool.give(message);
}

bool Endpoint::Impl::hold(int from, std::uint64_t charge) {
  PeerState& peer = peers[from];
  peer.held += charge;
  if (peer.held <= kWindow) [[likely]]
    return true;
  broken(from, "more than its credit allows");
  return false;
}

void Endpoint::Impl::give_back(int from, std::uint64_t charge) {
  PeerState& peer = peers[from];
  peer.owed += charge;
  if (peer.owed < kWindow / 4 || peer.failed) [[likely]]
    return;
  send_control(from, {kCredit, peer.owed, {}, 0});
  peer.held -= peer.owed;
  peer.owed = 0;
}

void* Endpoint::Impl::place(Link from, const FrameView& head) {
  PeerState& peer = peers[from];
  if (peer.failed) return nullptr;
  if (head.type == kEager) {
    if (peer.placed == nullptr) peer.placed = take_posted(from, head.tag);
    return peer.placed != nullptr && head.n_pay <= peer.placed->room ? peer.placed->data : nullptr;
  }
  if (head.type != kData) return nullptr;
  const Message* const message = find_flow(peer, head.tag);
  if (message == nullptr || message->op == nullptr) return nullptr;
  const std::uint64_t room = std::min(message->op->room, message->n_wanted);
  const std::uint64_t at = message->n_arrived;
  return at <= room && head.n_pay <= room - at ? message->op->data + at : nullptr;
}

void Endpoint::Impl::on_frame(Link from, const FrameView& frame) {
  PeerState& peer = peers[from];
  if (peer.failed) [[unlikely]]
    return;
  switch (frame.type) {
    case kEager:
      return on_eager(from, frame);
    case kHead:
      return on_head(from, frame);
    case kData:
      return on_data(from, frame);
    case kRequest:
      return on_request(from, frame);
    case kGrant:
      return on_grant(from, frame);
    case kTaken:
      return on_taken(from, frame);
    case kCredit:
      peer.charged -= std::min(peer.charged, frame.tag);
      return;
    default:
      return broken(from, "a frame of unknown type");
  }
}

void Endpoint::Impl::release(Request* request) {
  if (request->code != Code::kOk) request->text.clear();
  if (request->kind == Request::Kind::kSend)
    send_pool.give(static_cast<SendOp*>(request));
  else
    recv_pool.give(static_cast<RecvOp*>(request));
}

}  // namespace rlx
