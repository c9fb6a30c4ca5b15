// SPDX-License-Identifier: MIT OR Apache-2.0
// Inside of the endpoint: its frames and state. endpoint_send.cc, endpoint_recv.cc and
// endpoint_failure.cc work on it.
//
// Frames (tag field; ext; body):
//   kEager   the message's tag; -; the whole message
//   kHead    tag; Head; the first part of a message that was sent without asking
//   kData    the stream's id; -; the next part of that message
//   kRequest tag; Head; -        a message that waits for an answer (rendezvous)
//   kGrant   the sender's id; Grant; -     answer: send that much under this id
//   kTaken   the sender's id; -; -         answer: we have read it from your memory
//   kCredit  bytes; -; -         room for messages without asking is given back
//
// Flow control: a sender may have kWindow bytes at a receiver that no receive has taken yet
// (kOverhead more a message), and kMaxRequests unanswered requests; everything else waits in the
// sender's queue. So what a receiver stores for one peer is bounded, and checked.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/cgroup.h"
#include "base/faster_way.h"
#include "fabrics/endpoint.h"
#include "fabrics/host.h"
#include "fabrics/list.h"

namespace rlx {

enum FrameType : std::uint8_t {
  kEager = 1,
  kHead,
  kData,
  kRequest,
  kGrant,
  kTaken,
  kCredit,
};

struct Head {
  std::uint64_t n_bytes;
  std::uint64_t id;              // the sender's
  std::uint64_t address;         // of the message in the sender; 0: do not read it
  std::uint64_t may_choose = 0;  // 1: read it or grant it, as is faster
};

struct Grant {
  std::uint64_t n_bytes;  // wanted: less than the message if the receive is shorter
  std::uint64_t id;       // of the stream
};

// How a receiver takes a message that it may read from the sender's memory: one copy, in which the
// kernel pins each page, or two copies at the same time.
enum class Take : std::uint8_t { kRead, kSent };

// Ids of streams: the receiver's numbers follow a grant, the sender's an eager head.
inline constexpr std::uint64_t kSenderNumbered = std::uint64_t{1} << 63;
inline constexpr std::uint64_t kWindow = 256 << 10;
inline constexpr std::uint64_t kOverhead = 64;
inline constexpr std::uint32_t kMaxRequests = 256;
inline constexpr std::uint64_t kReadSlice = 1 << 20;

inline std::uint64_t charge_of(std::uint64_t n_bytes) { return n_bytes + kOverhead; }

struct SendOp : Request, ListNode<SendOp> {
  enum class Stage : std::uint8_t { kQueued, kAsked, kStreaming, kLeaving };
  const char* data = nullptr;
  std::uint64_t n_total = 0;
  std::uint64_t n_sent = 0;     // given to the wire
  std::uint64_t id = 0;         // ours, in sends
  std::uint64_t stream = 0;     // what kData frames carry
  std::uint32_t n_piece = 0;    // of each of them
  std::uint32_t n_leaving = 0;  // frames the wire has not finished
  Stage stage = Stage::kQueued;
  bool live = false;
  bool unwanted = false;  // somebody tried to cancel it: nobody may ever take it
  std::int64_t noticed_ns = 0;

  bool has_left() const { return done || (unwanted && stage == Stage::kAsked); }
};

struct Message;

struct RecvOp : Request, ListNode<RecvOp> {
  std::uint64_t want_tag = 0;
  std::uint64_t mask = 0;
  std::uint64_t order = 0;  // of posting
  char* data = nullptr;
  std::uint64_t room = 0;
  int from = kAnySource;
  bool posted = false;  // in a list of receives that have matched nothing
  bool live = false;
  Message* message = nullptr;  // matched, not complete
  std::int64_t noticed_ns = 0;

  bool accepts(std::uint64_t message_tag) const { return ((message_tag ^ want_tag) & mask) == 0; }
};

// An incoming message that is not complete, or that no receive has taken.
struct Message : ListNode<Message> {
  enum class Stage : std::uint8_t { kWhole, kStream, kAsked, kReading };
  int source = -1;
  std::uint64_t tag = 0;
  std::uint64_t n_bytes = 0;    // of the message
  std::uint64_t n_arrived = 0;  // or read
  std::uint64_t n_wanted = 0;   // how much will arrive
  std::uint64_t id = 0;         // stream, or the sender's id when asked
  std::uint64_t address = 0;
  std::uint64_t order = 0;    // of arrival
  std::int64_t began_ns = 0;  // when a way to take it was chosen; 0: there was no choice
  bool may_choose = false;
  RecvOp* op = nullptr;
  std::unique_ptr<char[]> data;  // what has arrived before a receive took it
  Stage stage = Stage::kWhole;
  bool live = false;
};

struct ControlFrame {
  FrameType type;
  std::uint64_t tag;
  Grant grant;
  std::uint32_t n_ext;
};

struct PeerState {
  Wire* wire = nullptr;
  Caps caps;
  // Messages up to here are one frame without a handshake; -1: the peer is not open.
  std::int64_t single_bytes = -1;
  std::string host;
  std::unique_ptr<Error> failed;

  bool nudged = false;
  bool busy = false;  // in Impl::busy: something below waits for the wire
  // Sending. `queue` keeps MPI's order; what is in `streams` has had its turn.
  List<SendOp> queue;
  List<SendOp> streams;
  std::deque<ControlFrame> controls;
  std::uint64_t charged = 0;  // of kWindow
  std::uint32_t n_asked = 0;

  // Receiving.
  List<RecvOp> posted;
  List<Message> unexpected;
  std::vector<Message*> flowing;  // streams towards us
  std::size_t last_flow = 0;      // where the last one was found
  std::uint64_t held = 0;         // charge that we have not given back
  std::uint64_t owed = 0;         // part of it that may be given back
  std::uint32_t n_requests = 0;   // unanswered, from this peer
  FasterWay<Take> faster_way;     // to take its large messages
  std::int64_t taken_ns = 0;      // when the last of them was complete
  RecvOp* placed = nullptr;       // whose buffer an eager body is being read into

  // How long the frames of a message of several frames are.
  std::uint32_t piece_of(std::uint64_t n_bytes) const {
    const std::uint64_t quarter = (n_bytes / 4 + 63) & ~std::uint64_t{63};
    return static_cast<std::uint32_t>(
        caps.piece_bytes == 0 ? caps.max_pay
                              : std::clamp<std::uint64_t>(quarter, caps.piece_bytes, caps.max_pay));
  }
  bool open() const { return wire != nullptr && failed == nullptr; }
};

// What the bootstrap's handler holds: it may outlive the endpoint.
struct Watch {
  std::mutex mutex;
  Endpoint* endpoint = nullptr;
};

struct Endpoint::Impl final : Sink, RequestOwner {
  Impl(const BootstrapFacts& facts, std::vector<std::unique_ptr<Wire>> wires);
  void open_peer(int rank, Wire* wire);
  void use(Wire* wire);
  void count_local(std::string_view cores);

  // endpoint_send.cc
  Request* isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes);
  Request* isend_slowly(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes);
  bool begin(PeerState& peer, SendOp* op);
  bool begin_whole(PeerState& peer, SendOp* op);
  bool begin_stream(PeerState& peer, SendOp* op);
  bool ask(PeerState& peer, SendOp* op, Offer offer);
  void settle(PeerState& peer, SendOp* op);
  bool stream(PeerState& peer, SendOp* op);
  bool pump(PeerState& peer, int rank);
  bool pump_busy();
  void mark_busy(PeerState& peer, int rank);
  void send_control(int to, const ControlFrame& control);
  bool post_control(PeerState& peer, int to, const ControlFrame& control);
  void finish_send(SendOp* op);
  void on_grant(int from, const FrameView& frame);
  void on_taken(int from, const FrameView& frame);
  SendOp* asked_send(int from, std::uint64_t id);

  // endpoint_recv.cc
  Request* irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                 std::uint64_t n_bytes);
  std::optional<Envelope> iprobe(int from, std::uint64_t tag, std::uint64_t mask) const;
  bool cancel(Request* request);
  void abandon(Request* request, std::int64_t after_ms);
  Message* find_unexpected(int from, std::uint64_t tag, std::uint64_t mask) const;
  RecvOp* take_posted(int from, std::uint64_t tag);
  void take_message(Message* message, RecvOp* op);
  void on_eager(int from, const FrameView& frame);
  void on_head(int from, const FrameView& frame);
  void on_data(int from, const FrameView& frame);
  void on_request(int from, const FrameView& frame);
  Message* new_message(int from, std::uint64_t tag, std::uint64_t n_bytes, Message::Stage stage);
  void store_unexpected(Message* message);
  void start_flow(Message* message);
  void end_flow(Message* message);
  Message* find_flow(PeerState& peer, std::uint64_t id);
  void append(Message* message, const char* data, std::uint64_t n);
  void answer(Message* message);
  void grant(Message* message);
  enum class Read { again, done, gone };
  Read read_on(Message* message);
  bool read_all();
  void finish_recv(RecvOp* op, int source, std::uint64_t tag, std::uint64_t n_bytes);
  void complete(Message* message);
  void drop(Message* message);
  bool hold(int from, std::uint64_t charge);
  void give_back(int from, std::uint64_t charge);

  // endpoint_failure.cc
  void fail_peer(int rank, std::string cause, bool is_failure = true,
                 std::string_view how = "is gone");
  std::function<void(int rank, const std::string& cause)> tell_failure;  // the bootstrap's, if any
  std::function<std::optional<std::string>(int rank)> last_word_on;      // likewise
  void fail_sends(int rank, const Error& why);
  void fail_receives(int rank, const Error& why);
  void fail_any_source(int rank, const Error& why);
  void broken(int rank, std::string_view what);
  void take_reports();
  const Error* why_none_comes(int from, std::uint64_t tag) const;
  bool in_group(std::uint64_t tag, int rank) const;
  void check();
  void nudge(int to);
  std::string describe(const Request* request) const;
  std::vector<Pending> pending();
  std::string describe_unsent();  // what all_left() waits for
  int n_in_use(std::uint32_t context);
  bool all_left();
  std::string who(int rank) const;

  bool poll() {
    bool moved = false;
    for (Wire* wire : polled) moved |= wire->progress(*this) > 0;
    if (!busy.empty()) [[unlikely]]
      moved |= pump_busy();
    if (!reading.empty()) [[unlikely]]
      moved |= read_all();
    if (reported.load(std::memory_order_relaxed)) [[unlikely]]
      take_reports();
    return moved;
  }

  // Sink
  void* place(Link from, const FrameView& head) override;
  void on_frame(Link from, const FrameView& frame) override;
  void on_sent(Link to, std::uint64_t cookie) override;
  void on_down(Link peer, const Error& why) override;
  // RequestOwner
  void release(Request* request) override;

  int rank;
  int size;
  std::string hostname;
  std::string identity;
  CpuSet cpus;
  bool crowded = false;  // more ranks than cores on this host
  CpuSet host_cpus;      // of all ranks here
  double load = 0;       // ranks that want each of our cores
  int n_local = 0;
  double quota = cgroup_cpu_quota();  // 0: none
  std::vector<std::unique_ptr<Wire>> wires;
  std::vector<Wire*> polled;  // those that reach somebody
  std::vector<Wire*> spare;   // a peer that cannot use our choice may still come in over these
  std::unique_ptr<Waiter> waiter;
  ShmWire* shm = nullptr;

  std::vector<PeerState> peers;
  List<RecvOp> posted_any;
  std::uint64_t n_posted = 0;   // ever: the order of receives
  std::uint64_t n_arrived = 0;  // unexpected ones ever
  std::uint64_t n_streams = 0;  // numbered by us ever
  std::size_t n_unexpected = 0;
  std::vector<int> busy;
  std::vector<Message*> reading;
  Pool<SendOp> send_pool;
  Pool<RecvOp> recv_pool;
  Pool<Message> message_pool;
  IdTable<SendOp> sends;

  int first_failed = -1;
  int n_failed = 0;
  std::map<std::uint32_t, std::vector<int>> groups;
  std::atomic<bool> reported{false};
  std::mutex reports_mutex;
  std::vector<std::pair<int, std::string>> reports;
  std::shared_ptr<Watch> watch = std::make_shared<Watch>();
};

}  // namespace rlx
