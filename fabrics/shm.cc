// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/shm.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/log.h"
#include "fabrics/host.h"
#include "fabrics/shm_area.h"
#include "fabrics/shm_pool.h"
#include "fabrics/shm_ring.h"
#include "fabrics/shm_segment.h"

namespace rlx {
namespace {

// Of longer messages the receiver may read the sender's memory instead of having them streamed
// through the ring: what each way costs differs by machine and moment (base/faster_way.h).
constexpr std::uint64_t kOfferFrom = 8 << 10;
constexpr std::uint32_t kPieceBytes = 8 << 10;
constexpr int kEndingMs = 500;
constexpr const char* kGivenUp = "it has given this rank up, after an operation that did not end";
constexpr int kFramesPerLook = 16;
constexpr std::size_t kMaxSlots = 4096;

void close_fd(int fd) {
  if (fd >= 0) close(fd);
}

AreaHeader& header_of(const Segment& area) { return *reinterpret_cast<AreaHeader*>(area.data()); }

RingMemory* ring_of(const Segment& area, const AreaLayout& layout, int slot) {
  return reinterpret_cast<RingMemory*>(area.data() + layout.ring_at(slot));
}

}  // namespace

struct ShmWire::Impl {
  struct Peer {
    Link rank = -1;
    int slot = -1;
    pid_t pid = -1;
    int pid_fd = -1;         // -1: a thread, or a process that ended before we came
    bool is_thread = false;  // of this process
    int wake_fd = -1;
    std::shared_ptr<Segment> area;  // null, like the bell, if it ended before we came
    Bell* bell = nullptr;
    RingWriter out;
    RingReader in;
    PoolView pool;
    bool reads_by_call = false;  // process_vm_readv works from here

    ~Peer() {
      close_fd(pid_fd);
      close_fd(wake_fd);
    }
    // True once the process is a zombie or gone. One that is on its way there has already closed
    // its files when we find none of them, so it is given a moment.
    bool has_ended() const {
      if (is_thread) return false;
      const std::string files = fmt::format("/proc/{}/fd", pid);
      pollfd fd{pid_fd, POLLIN, 0};
      return pid_fd < 0 || ::poll(&fd, 1, access(files.c_str(), F_OK) == 0 ? kEndingMs : 0) > 0;
    }
  };

  explicit Impl(const BootstrapFacts& facts);
  ~Impl() {
    close_fd(wake_read);
    close_fd(address.wake_fd);
  }
  Status make_area();
  Result<std::unique_ptr<Peer>> reach(Link rank, const AreaAddress& theirs) const;
  Status map_peer(Peer& peer, const AreaAddress& theirs) const;
  Status check_address(Link rank, const AreaAddress& theirs) const;
  Peer* peer(Link rank) const {
    return static_cast<std::size_t>(rank) < by_rank.size() ? by_rank[rank].get() : nullptr;
  }
  int read_frames(Peer& peer, Sink& sink, int at_most);
  void acknowledge(Peer& peer) {
    if (peer.in.acknowledge() && peer.bell != nullptr) peer.bell->ring(peer.wake_fd);
  }
  void drop(Peer& peer, Sink& sink, std::string why);
  // It has withdrawn what it offered us, and listens to us no more.
  bool has_given_us_up(const Peer& peer) const {
    return peer.area != nullptr &&
           header_of(*peer.area).given_up(layout.n_slots)[address.slot].load() != 0;
  }

  int rank;
  std::vector<int> slot_of;  // by rank; -1: cannot be local
  AreaLayout layout;
  AreaAddress address;  // ours
  std::shared_ptr<Segment> area;
  int wake_read = -1;
  ShmPool pool{nullptr};
  std::vector<std::unique_ptr<Peer>> by_rank;
  std::vector<Peer*> live;  // polled
  std::vector<Link> reached;
  bool crowded = false;
};

ShmWire::Impl::Impl(const BootstrapFacts& facts)
    : rank(facts.rank), slot_of(facts.size, -1), by_rank(facts.size), reached{facts.rank} {
  const auto& locals = facts.local_ranks;
  for (int r = 0; r < facts.size; ++r) {
    if (locals.empty()) slot_of[r] = r;
  }
  for (std::size_t slot = 0; slot < locals.size(); ++slot)
    slot_of[locals[slot]] = static_cast<int>(slot);
  const int n_slots = static_cast<int>(locals.empty() ? facts.size : locals.size());
  layout = AreaLayout::for_slots(n_slots, kRegionBytes, kChannels);
}

Status ShmWire::Impl::make_area() {
  address.host = host_identity();
  if (address.host.empty())
    return fail(Code::kUnsupported, "/proc does not tell which host this is");
  if (slot_of[rank] < 0 || layout.n_slots > static_cast<int>(kMaxSlots))
    return fail(Code::kUnsupported,
                fmt::format("{} ranks may be on this host; at most {} can share "
                            "memory",
                            layout.n_slots, kMaxSlots));
  Bell::enroll();
  RLX_TRY_ASSIGN(area, Segment::create(layout.n_bytes(), Segment::Pages::kSmall));
  madvise(area->data(), layout.n_huge_bytes(), MADV_HUGEPAGE);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("pipe2");
  wake_read = ends[0];
  address.wake_fd = ends[1];
  if (getrandom(&address.nonce, sizeof address.nonce, 0) != sizeof address.nonce)
    return fail_errno("getrandom");
  address.pid = getpid();
  address.fd = area->fd();
  address.base = reinterpret_cast<std::uint64_t>(area->data());
  address.n_slots = layout.n_slots;
  address.slot = slot_of[rank];
  address.max_pay = layout.ring.max_pay;
  AreaHeader& header = *new (area->data()) AreaHeader;
  header.nonce = address.nonce;
  header.magic = AreaHeader::kMagic;
  pool = ShmPool(&header.pool);
  return {};
}

Status ShmWire::Impl::check_address(Link peer_rank, const AreaAddress& theirs) const {
  if (theirs.host != address.host)
    return fail(Code::kUnreachable,
                "it is on another host, in another pid namespace or another "
                "user's");
  if (slot_of[peer_rank] < 0 || theirs.slot != slot_of[peer_rank] ||
      theirs.n_slots != address.n_slots || theirs.max_pay != address.max_pay)
    return fail(Code::kUnreachable, fmt::format("it sees {} ranks on this host, we see {}",
                                                theirs.n_slots, address.n_slots));
  return {};
}

Result<std::unique_ptr<ShmWire::Impl::Peer>> ShmWire::Impl::reach(Link peer_rank,
                                                                  const AreaAddress& theirs) const {
  RLX_TRY(check_address(peer_rank, theirs));
  auto peer = std::make_unique<Peer>();
  peer->rank = peer_rank;
  peer->slot = theirs.slot;
  peer->pid = theirs.pid;
  peer->in = RingReader(ring_of(*area, layout, theirs.slot), layout.ring);
  // Opened before the nonce is checked: what it refers to then is the process with that nonce.
  if (theirs.pid != address.pid)
    peer->pid_fd = static_cast<int>(syscall(SYS_pidfd_open, theirs.pid, 0));
  peer->is_thread = theirs.pid == address.pid;
  const bool reaped = peer->pid_fd < 0 && !peer->is_thread && errno == ESRCH;
  const Status mapped = reaped ? fail(Code::kUnreachable, "") : map_peer(*peer, theirs);
  // A process that ended before we came: what it sent lies in our area, check() tells the rest.
  if (!mapped && !reaped && !peer->has_ended()) return tl::unexpected(mapped.error());
  return peer;
}

Status ShmWire::Impl::map_peer(Peer& peer, const AreaAddress& theirs) const {
  Result<int> wake_fd = peer.is_thread
                            ? fcntl(theirs.wake_fd, F_DUPFD_CLOEXEC, 0)
                            : open_of_process(theirs.pid, theirs.wake_fd, O_WRONLY | O_NONBLOCK);
  RLX_TRY_ASSIGN(peer.wake_fd, std::move(wake_fd));
  RLX_TRY_ASSIGN(auto mapped,
                 Segment::attach(theirs.pid, theirs.fd, layout.n_bytes(), Segment::Pages::kSmall));
  AreaHeader& header = header_of(*mapped);
  if (header.magic != AreaHeader::kMagic || header.nonce != theirs.nonce)
    return fail(Code::kUnreachable, fmt::format("process {} is another one now", theirs.pid));
  madvise(mapped->data(), layout.n_huge_bytes(), MADV_HUGEPAGE);
  peer.bell = &header.bell;
  peer.out = RingWriter(ring_of(*mapped, layout, address.slot), layout.ring);
  peer.pool = PoolView(&header.pool, theirs.pid);
  std::uint64_t nonce = 0;
  const RemoteSpan probe{theirs.base + offsetof(AreaHeader, nonce), sizeof nonce};
  peer.reads_by_call =
      peer.is_thread || (read_of_process(theirs.pid, probe, &nonce) && nonce == theirs.nonce);
  header.readable_by()[address.slot].store(peer.reads_by_call);
  peer.area = std::move(mapped);
  return {};
}

int ShmWire::Impl::read_frames(Peer& peer, Sink& sink, int at_most) {
  int n_frames = 0;
  FrameView view;
  while (n_frames < at_most) {
    const auto seen = peer.in.look(view);
    if (seen == RingReader::Seen::kNothing) break;
    if (seen == RingReader::Seen::kBroken) {
      drop(peer, sink, "it wrote a broken frame into shared memory");
      return n_frames + 1;
    }
    peer.out.learn(peer.in.heard());
    sink.on_frame(peer.rank, view);
    ++n_frames;
    if (peer.in.release()) acknowledge(peer);
  }
  return n_frames;
}

void ShmWire::Impl::drop(Peer& peer, Sink& sink, std::string why) {
  std::erase(live, &peer);
  sink.on_down(peer.rank, Error{Code::kPeerFailed, std::move(why)});
}

ShmWire::ShmWire(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ShmWire::~ShmWire() = default;

Result<std::unique_ptr<ShmWire>> ShmWire::create(const BootstrapFacts& facts) {
  auto impl = std::make_unique<Impl>(facts);
  RLX_TRY(impl->make_area());
  return std::unique_ptr<ShmWire>(new ShmWire(std::move(impl)));
}

std::string ShmWire::address() const { return impl_->address.text(); }

Status ShmWire::connect(Link rank, std::string_view address) {
  RLX_TRY_ASSIGN(const AreaAddress theirs, AreaAddress::parse(address));
  RLX_TRY_ASSIGN(auto peer, impl_->reach(rank, theirs));
  if (peer->area != nullptr && !peer->reads_by_call)
    log::info("rank {}: process_vm_readv is not allowed; large messages are copied twice", rank);
  impl_->live.push_back(peer.get());
  impl_->reached.insert(std::lower_bound(impl_->reached.begin(), impl_->reached.end(), rank), rank);
  impl_->by_rank[rank] = std::move(peer);
  return {};
}

Caps ShmWire::caps(Link) const {
  return {.max_ext = RingSlot::kRoom,
          .max_pay = impl_->layout.ring.max_pay,
          .eager_bytes = impl_->layout.ring.n_body_bytes,
          .piece_bytes = std::min<std::uint32_t>(kPieceBytes, impl_->layout.ring.max_pay),
          .wake_fd = true,
          .alpha_us = 0.25,
          .beta_us_per_byte = 1.0 / 25e3};
}

Posted ShmWire::post(Link to, const Frame& frame) {
  Impl::Peer& peer = *impl_->by_rank[to];
  if (peer.bell == nullptr || !peer.out.write(frame, peer.in.n_read())) [[unlikely]]
    return Posted::kFull;
  peer.in.told();
  peer.bell->ring(peer.wake_fd);
  return Posted::kDone;
}

int ShmWire::progress(Sink& sink) {
  int n_frames = 0;
  // By index: a broken peer leaves the list while we walk it.
  for (std::size_t i = 0; i < impl_->live.size(); ++i)
    if (impl_->live[i]->in.has_frame())
      n_frames += impl_->read_frames(*impl_->live[i], sink, kFramesPerLook);
  return n_frames;
}

void ShmWire::check(Sink& sink) {
  std::vector<pollfd> fds;
  const std::vector<Impl::Peer*> watched = impl_->live;
  // poll() skips negative descriptors: threads, and processes that had ended before we came.
  for (const Impl::Peer* peer : watched) fds.push_back({peer->pid_fd, POLLIN, 0});
  if (::poll(fds.data(), fds.size(), 0) < 0) return;
  for (std::size_t i = 0; i < fds.size(); ++i) {
    Impl::Peer& peer = *watched[i];
    const bool ended = fds[i].revents != 0 || (peer.pid_fd < 0 && !peer.is_thread);
    if (!ended && !impl_->has_given_us_up(peer)) continue;
    while (impl_->read_frames(peer, sink, kFramesPerLook) > 0) {
    }
    if (std::find(impl_->live.begin(), impl_->live.end(), &peer) != impl_->live.end())
      impl_->drop(peer, sink, ended ? fmt::format("its process {} ended", peer.pid) : kGivenUp);
  }
}

Offer ShmWire::offers(Link to, const void* data, std::uint64_t n_bytes) const {
  if (n_bytes <= kOfferFrom) return Offer::kNone;
  const Impl::Peer& peer = *impl_->by_rank[to];
  if (peer.is_thread || impl_->pool.contains(data, n_bytes)) return Offer::kShould;
  if (header_of(*impl_->area).readable_by()[peer.slot].load() == 0) return Offer::kNone;
  // Reading takes one rank's turn on a core where the ring takes two for each time it fills.
  if (impl_->crowded)
    return n_bytes > impl_->layout.ring.n_body_bytes ? Offer::kShould : Offer::kNone;
  return Offer::kMay;
}

Status ShmWire::read(Link from_rank, RemoteSpan from, void* to) {
  Impl::Peer& peer = *impl_->by_rank[from_rank];
  const void* here =
      peer.is_thread ? reinterpret_cast<const void*>(from.address) : peer.pool.pointer(from);
  Status got;
  if (here == nullptr)
    got = read_of_process(peer.pid, from, to);
  else
    std::memcpy(to, here, from.n_bytes);
  // After the copy: see AreaHeader::given_up.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (impl_->has_given_us_up(peer)) return fail(Code::kPeerFailed, kGivenUp);
  return got;
}

void ShmWire::withdraw(Link to) {
  const Impl::Peer* const peer = impl_->peer(to);
  if (peer == nullptr) return;
  header_of(*impl_->area).given_up(impl_->layout.n_slots)[peer->slot].store(1);
  // Nothing we write from now on may be seen by one who does not see this.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  ring(to);
}

bool ShmWire::arm() {
  for (Impl::Peer* peer : impl_->live) impl_->acknowledge(*peer);
  bell()->announce();
  return std::none_of(impl_->live.begin(), impl_->live.end(),
                      [](const Impl::Peer* peer) { return peer->in.has_frame(); });
}

void ShmWire::disarm() {
  bell()->awake();
  char bytes[64];
  while (::read(impl_->wake_read, bytes, sizeof bytes) == sizeof bytes) {
  }
}

int ShmWire::fd() const { return impl_->wake_read; }
Bell* ShmWire::bell() { return &header_of(*impl_->area).bell; }

// What peers have not read yet lies in their memory.
bool ShmWire::drained() const { return true; }

std::span<const Link> ShmWire::ranks() const { return impl_->reached; }

std::byte* ShmWire::region(Link rank, int channel) {
  const Impl::Peer* peer = impl_->peer(rank);
  const Segment* const area = rank == impl_->rank ? impl_->area.get()
                              : peer != nullptr   ? peer->area.get()
                                                  : nullptr;
  return area ? area->data() + impl_->layout.region_at(channel) : nullptr;
}

std::byte* ShmWire::pool_pointer(Link rank, RemoteSpan from) {
  if (rank == impl_->rank) {
    auto* const here = reinterpret_cast<std::byte*>(from.address);
    return impl_->pool.contains(here, from.n_bytes) ? here : nullptr;
  }
  Impl::Peer* peer = impl_->peer(rank);
  return peer ? peer->pool.pointer(from) : nullptr;
}

void ShmWire::ring(Link rank) {
  const Impl::Peer* const peer = impl_->peer(rank);
  if (peer != nullptr && peer->bell != nullptr) peer->bell->ring(peer->wake_fd);
}

void ShmWire::ring(std::span<const Link> ranks) {
  for (Link rank : ranks) ring(rank);
}

void ShmWire::set_crowded(bool crowded) { impl_->crowded = crowded; }

Result<void*> ShmWire::pool_alloc(std::uint64_t n_bytes) { return impl_->pool.alloc(n_bytes); }
Status ShmWire::pool_free(void* memory) { return impl_->pool.free(memory); }
bool ShmWire::in_pool(const void* data, std::uint64_t n_bytes) const {
  return impl_->pool.contains(data, n_bytes);
}

}  // namespace rlx
