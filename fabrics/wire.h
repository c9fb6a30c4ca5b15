// SPDX-License-Identifier: MIT OR Apache-2.0
// A wire: ordered frames between this rank and its peers, nothing else. Matching, eager and
// rendezvous, flow control and routing are written once above all wires, in fabrics/endpoint.h.
//
// Thread: all calls come from the thread that drives the endpoint. progress() is never re-entered;
// a sink may post() from inside its callbacks but must not call progress().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rlx {

class Bell;

// A peer as a wire knows it: the peer's rank in the world.
using Link = int;

// What is sent. `ext` is the small part that rides in the wire's own header (at most Caps::max_ext
// bytes); `pay` is the body (at most Caps::max_pay bytes). type and tag mean nothing to the wire.
struct Frame {
  std::uint8_t type = 0;
  std::uint64_t tag = 0;
  const void* ext = nullptr;
  std::uint32_t n_ext = 0;
  const void* pay = nullptr;
  std::uint32_t n_pay = 0;
  // 0: the wire has taken a copy when post() returns. Else `pay` stays valid until
  // Sink::on_sent(cookie).
  std::uint64_t cookie = 0;
};

// What arrives. Valid during the callback only.
struct FrameView {
  std::uint8_t type = 0;
  std::uint64_t tag = 0;
  const char* ext = nullptr;
  std::uint32_t n_ext = 0;
  const char* pay = nullptr;
  std::uint32_t n_pay = 0;
};

class Sink {
 public:
  // The wire has read the head of a frame whose body is still outside (a socket): where should it
  // go? nullptr: into the wire's own buffer. Called at most once a frame, before on_frame; head.pay
  // is nullptr and head.n_pay is the length to come.
  virtual void* place(Link from, const FrameView& head) = 0;
  virtual void on_frame(Link from, const FrameView& frame) = 0;
  virtual void on_sent(Link to, std::uint64_t cookie) = 0;
  // The peer is gone for this wire; called once a link. Frames that it sent before were delivered.
  // Code::kOk: it has left the job in good order.
  virtual void on_down(Link peer, const Error& why) = 0;

 protected:
  ~Sink() = default;
};

// A range of a peer's memory that Wire::read can reach.
struct RemoteSpan {
  std::uint64_t address = 0;  // in the peer's address space
  std::uint64_t n_bytes = 0;
};

struct Caps {
  std::uint32_t max_ext = 0;      // bytes; at least 32
  std::uint32_t max_pay = 0;      // bytes; larger messages become several frames
  std::uint32_t eager_bytes = 0;  // messages up to here should go without a handshake
  // Not 0: both sides copy, so a message of more than this is better cut into pieces of at
  // least this size, which the two then copy at the same time.
  std::uint32_t piece_bytes = 0;
  bool wake_fd = false;  // arm() and fd() work: an event makes fd() readable
  // Cost model, measured or typical: a frame of n bytes takes alpha_us + n * beta_us_per_byte.
  double alpha_us = 0;
  double beta_us_per_byte = 0;
};

// What is best done with a message that lies in memory which the peer could read.
enum class Offer : std::uint8_t {
  kNone,   // send it
  kMay,    // let the peer read it or have it sent, as it finds faster
  kShould  // let the peer read it
};

enum class Posted { kDone, kPending, kFull };

class Wire {
 public:
  virtual ~Wire() = default;

  virtual std::string_view name() const = 0;
  // Bytes that a peer needs to reach us, put into the bootstrap's blob.
  virtual std::string address() const = 0;
  // Makes `peer` reachable from its address(); kUnreachable with a reason lets the next wire try.
  // May return before the connection stands: post() then queues or answers kFull.
  virtual Status connect(Link peer, std::string_view address) = 0;

  virtual Caps caps(Link peer) const = 0;
  // kDone: sent or copied. kPending: on_sent(cookie) follows (only with a cookie). kFull: not
  // taken, try after progress(). Never blocks, never calls the sink.
  virtual Posted post(Link peer, const Frame& frame) = 0;
  // Delivers what has arrived; returns the number of frames delivered and bodies sent. Must be
  // cheap when nothing has: it is called in a tight loop.
  virtual int progress(Sink& sink) = 0;
  // The slow look at things progress() does not see (is the peer's process still there, did a
  // keepalive expire): called by every wait that lasts, about every 50 ms.
  virtual void check(Sink&) {}

  // Whether `peer` should call read() on n_bytes at `data` instead of being sent them.
  virtual Offer offers(Link, const void* /*data*/, std::uint64_t /*n_bytes*/) const {
    return Offer::kNone;
  }
  // Copies peer memory that the peer's wire offered. kPeerFailed: the peer has withdrawn it.
  // Another error means that it must be sent instead.
  virtual Status read(Link, RemoteSpan, void* /*to*/) {
    return fail(Code::kUnsupported, "this wire reads no peer memory");
  }

  // Gives the peer up, for good: when this returns, memory of this process that `peer` was offered
  // or that post() still holds is never sent (a read of it that has not returned fails), nothing
  // that arrives is written to what place() said, and the peer's wire will report us down.
  virtual void withdraw(Link peer) = 0;

  // Sleeping: after arm() returned true, any event for this wire makes fd() readable (or rings
  // bell(), if the wire has one). arm() returns false when something is already there, and the wait
  // polls again. Only if caps().wake_fd; fd() is -1 for a wire without.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  virtual int fd() const = 0;
  // Not null: peers ring this bell in shared memory, and a wait that has no other wire to watch
  // sleeps on it instead of fd().
  virtual Bell* bell() { return nullptr; }

  // Everything posted has left: what a peer has not read yet survives our exit.
  virtual bool drained() const = 0;
};

}  // namespace rlx
