// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages between ranks, written once above all wires: routing, matching in MPI order with
// wildcards, eager and rendezvous, flow control, peer failure.
//
// Order: messages from one sender whose tags a receive accepts are matched in the order they were
// sent; receives in the order they were posted. A tag is 64 bits: context (communicator) << 32 |
// user's tag.
// Failure: when a peer is gone, every pending operation that needs it completes with kPeerFailed
// (rank, host, cause), and later ones fail at once; messages that had arrived whole can still be
// received. A receive from any source fails if a rank of its context (set_group; all ranks if
// nobody set one) is gone and nothing that matches has arrived.
// Thread: one at a time, except report_failure().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bootstrap.h"
#include "base/clock.h"
#include "base/result.h"
#include "fabrics/request.h"
#include "fabrics/wait.h"
#include "fabrics/wire.h"

namespace rlx {

class ShmWire;

inline constexpr int kAnySource = -1;
inline constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};  // mask: every bit counts
inline constexpr std::uint64_t kAnyUserTag = kWholeTag << 32;  // mask: context only
inline constexpr std::uint64_t make_tag(std::uint32_t context, std::uint32_t user) {
  return std::uint64_t{context} << 32 | user;
}

// A message that has arrived and waits for its receive.
struct Envelope {
  int source = -1;
  std::uint64_t tag = 0;
  std::uint64_t n_bytes = 0;
};

// What an operation that does not end is waiting for.
struct Pending {
  Request::Kind kind;
  int peer;  // kAnySource for a receive from anyone
  std::uint64_t tag;
  std::uint64_t n_bytes;
  std::uint64_t n_moved;
  std::int64_t age_ms;  // since a wait first noticed it
  std::string text;     // "receive from rank 3 (node1), tag 7, nothing has arrived"
};

class Endpoint {
 public:
  // `wires` best first. publish blob() to all ranks, then connect() every rank.
  static Result<std::unique_ptr<Endpoint>> create(const BootstrapFacts& facts,
                                                  std::vector<std::unique_ptr<Wire>> wires);
  ~Endpoint();

  std::string blob() const;
  // Takes the first wire that reaches `rank`; kUnreachable lists why each one does not.
  Status connect(int rank, std::string_view blob);

  int rank() const;
  int size() const;
  const std::string& host_of(int rank) const;
  std::string_view wire_of(int rank) const;
  // That any rank of this host may use; the same for all of them once they are connected.
  int host_cores() const;
  // Ranks of this host outnumber those cores: who waits should give way.
  bool crowded() const;
  ShmWire* shm();  // nullptr if there is none

  // nullptr: done on return, `data` may be reused. Otherwise release() the request once it is done.
  Request* isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes);
  // Never nullptr. Accepts a message when (its tag ^ tag) & mask == 0.
  Request* irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                 std::uint64_t n_bytes);
  // The message a receive like this would get now. Call poll() first, or use it inside until().
  std::optional<Envelope> iprobe(int from, std::uint64_t tag, std::uint64_t mask) const;
  // Why a message that is not here will not come: a rank it may come from has failed. nullptr: it
  // may come.
  const Error* why_none_comes(int from, std::uint64_t tag) const;
  // Receives that have matched nothing complete with kCancelled; false if it is too late. A send is
  // not cancelled, but if its peer never takes it, flush() does not wait for that.
  bool cancel(Request* request);
  // Ends a request that did not end in time: kTimeout, with what it waited for as text. A message
  // that is half here cannot be called back, so its peer counts as failed from then on.
  void abandon(Request* request, std::int64_t after_ms);
  void release(Request* request);  // as request->release()

  // Moves everything a little; true if anything moved.
  bool poll();
  // Until the request is done; its status. kTimeout leaves it pending, with describe() as text.
  Status wait(Request* request, Deadline deadline);
  // Until turn() says kDone; turn() must poll(). Peer death is noticed meanwhile.
  template <class TurnFn>
  Status until(TurnFn&& turn, Deadline deadline) {
    return waiter().until(
        turn, [this] { check(); }, deadline);
  }
  // Until nothing we sent is still here, see cancel(); kTimeout names a message that is.
  Status flush(Deadline deadline);

  // The error operations with `rank` complete with; nullptr while it lives.
  const Error* failed(int rank) const;
  // Of all failed ranks the one that failed first; -1 if none.
  int first_failed() const;
  // From any thread (the bootstrap's watch): the rank counts as failed from the next poll on; ends
  // a sleep.
  void report_failure(int rank, std::string cause);
  // Which ranks a context's receives from any source depend on.
  void set_group(std::uint32_t context, std::vector<int> ranks);
  void clear_group(std::uint32_t context);

  // How waits behave; connect() sets it from facts.
  void set_wait_budget(WaitBudget budget) { waiter().set_budget(budget); }
  // Waits that slept although something had come: 0 unless a wire forgets to ring.
  std::uint64_t n_late_wakes() { return waiter().n_late(); }

  // Messages of a context that need it still: sends that are not done, receives not released.
  int n_in_use(std::uint32_t context);

  // For messages about timeouts.
  std::vector<Pending> pending() const;
  std::string describe(const Request* request) const;

 private:
  friend Result<std::unique_ptr<Endpoint>> open_endpoint(Bootstrap& bootstrap, Deadline deadline,
                                                         std::string_view fabrics);
  struct Impl;
  explicit Endpoint(std::unique_ptr<Impl> impl);
  Waiter& waiter();
  void check();
  std::unique_ptr<Impl> impl_;
};

// The usual composition: makes the wires in `fabrics` (commas, best first; empty: all that work),
// puts our blob, meets everybody in the fence, connects all, and watches the bootstrap for
// failures.
Result<std::unique_ptr<Endpoint>> open_endpoint(Bootstrap& bootstrap, Deadline deadline,
                                                std::string_view fabrics);
// The fabrics that RLX_FABRICS allows.
Result<std::unique_ptr<Endpoint>> open_endpoint(Bootstrap& bootstrap, Deadline deadline);

}  // namespace rlx
