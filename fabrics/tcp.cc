// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp.h"

#include <errno.h>
#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/clock.h"
#include "base/knobs.h"
#include "base/log.h"

namespace rlx {
namespace {

using tcp::Moved;

// Up to here a read of every socket is cheaper than asking epoll and then reading.
constexpr std::size_t kDirectLinks = 3;
constexpr std::uint64_t kLobbyEvent = ~std::uint64_t{0};
constexpr std::int64_t kLobbyPeriodNs = 100000;
constexpr std::int64_t kSilencePeriodNs = 1000000000;
constexpr std::uint32_t kSilentMs = 1000;

}  // namespace

Result<std::unique_ptr<TcpWire>> TcpWire::create(const BootstrapFacts& facts) {
  TcpOptions options;
  options.rank = facts.rank;
  options.job_id = facts.job_id;
  options.net = knobs().net;
  options.port_range = knobs().tcp_port_range;
  options.congestion = knobs().tcp_congestion;
  options.host_only =
      options.net.empty() && facts.local_ranks.size() == static_cast<std::size_t>(facts.size);
  return create(options);
}

Result<std::unique_ptr<TcpWire>> TcpWire::create(const TcpOptions& options) {
  RLX_TRY_ASSIGN(auto lobby, tcp::Lobby::open(options));
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno("epoll_create1");
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.u64 = kLobbyEvent;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, lobby->fd(), &event) != 0)
    return fail_errno("epoll_ctl");
  return std::unique_ptr<TcpWire>(new TcpWire(options, std::move(lobby), std::move(epoll)));
}

TcpWire::TcpWire(TcpOptions options, std::unique_ptr<tcp::Lobby> lobby, Fd epoll)
    : options_(std::move(options)), lobby_(std::move(lobby)), epoll_(std::move(epoll)) {}

TcpWire::~TcpWire() {
  for (const Link link : up_) at(link).out.say_bye(at(link).fd.get());
}

Status TcpWire::connect(Link peer, std::string_view address) {
  if (peer == options_.rank) return fail(Code::kUnreachable, "tcp does not connect to itself");
  RLX_TRY(lobby_->add_peer(peer, address));
  const auto index = static_cast<std::size_t>(peer);
  if (peers_.size() <= index) peers_.resize(index + 1);
  peers_[index] = std::make_unique<Peer>();
  peers_[index]->state = Peer::State::idle;
  peers_[index]->host_local = lobby_->same_host(peer);
  return {};
}

Caps TcpWire::caps(Link peer) const {
  const bool local = peers_[static_cast<std::size_t>(peer)]->host_local;
  return {.max_ext = tcp::kMaxExt,
          .max_pay = tcp::kMaxPay,
          .eager_bytes = 64 * 1024,
          .wake_fd = true,
          .alpha_us = local ? 7.0 : 30.0,
          .beta_us_per_byte = local ? 0.0002 : 0.001};
}

Posted TcpWire::post(Link link, const Frame& frame) {
  Peer& peer = at(link);
  if (peer.state == Peer::State::down) return Posted::kFull;
  if (peer.state == Peer::State::idle) {
    peer.state = Peer::State::dialling;
    lobby_->dial(link);
  }
  return peer.out.post(peer.fd.get(), frame);
}

// --- Progress ---

int TcpWire::progress(Sink& sink) {
  const bool direct = up_.size() <= kDirectLinks;
  if (!direct) collect_events();
  if (lobby_ready_ || lobby_->busy() || (direct && lobby_is_due())) attend_lobby(sink);
  return direct ? serve_all(sink) : serve_ready(sink);
}

// Whether to look for new connections although epoll was not asked.
bool TcpWire::lobby_is_due() {
  if ((++n_turns_ & 15) != 0) return false;
  const std::int64_t now = now_ns();
  if (now - lobby_at_ns_ < kLobbyPeriodNs) return false;
  lobby_at_ns_ = now;
  return true;
}

void TcpWire::attend_lobby(Sink& sink) {
  lobby_ready_ = false;
  lobby_->progress(settled_);
  for (auto& settled : settled_) bring_up(std::move(settled), sink);
  settled_.clear();
}

void TcpWire::bring_up(tcp::Settled settled, Sink& sink) {
  const Link link = settled.peer;
  Peer& peer = at(link);
  if (!settled.fd) return take_down(link, std::move(settled.why), sink);
  epoll_event event = {};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = static_cast<std::uint64_t>(link);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, settled.fd.get(), &event) != 0)
    return take_down(link, {Code::kSystem, fmt::format("epoll_ctl: {}", strerror(errno))}, sink);
  peer.fd = std::move(settled.fd);
  peer.route = std::move(settled.route);
  peer.state = Peer::State::up;
  peer.readable = peer.writable = true;
  peer.listed = true;
  ready_.push_back(link);
  up_.push_back(link);
  log::info("tcp: rank {} by {}", link, peer.route);
}

void TcpWire::take_down(Link link, Error why, Sink& sink) {
  Peer& peer = at(link);
  peer.state = Peer::State::down;
  peer.fd.reset();
  peer.readable = peer.writable = false;
  std::erase(up_, link);
  sink.on_down(link, why);
}

void TcpWire::collect_events() {
  epoll_event events[64];
  for (;;) {
    const int n = ::epoll_wait(epoll_.get(), events, 64, 0);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.u64 == kLobbyEvent) {
        lobby_ready_ = true;
        continue;
      }
      const auto link = static_cast<Link>(events[i].data.u64);
      Peer& peer = at(link);
      if (events[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) peer.readable = true;
      if (events[i].events & EPOLLOUT) peer.writable = true;
      if (peer.listed) continue;
      peer.listed = true;
      ready_.push_back(link);
    }
    if (n < 64) return;
  }
}

// One write and one read at most. What is left for another turn counts as moved: no event would
// tell of it, so nobody may go to sleep over it.
int TcpWire::serve(Link link, Sink& sink) {
  Peer& peer = at(link);
  const int fd = peer.fd.get();
  int n_moved = 0;
  // After a failed write what has arrived is still delivered; the read finds the end or the error.
  if (peer.writable && !peer.out.empty() && !peer.out.error())
    peer.writable = peer.out.flush(fd, link, sink, n_moved) == Moved::all;
  const Moved moved = peer.in.read(fd, link, sink, n_moved);
  peer.readable = moved == Moved::all;
  n_moved += peer.readable || (peer.writable && !peer.out.empty());
  if (moved == Moved::stopped || (moved == Moved::some && peer.out.error()))
    take_down(link, explain_end(peer), sink);
  return n_moved;
}

int TcpWire::serve_all(Sink& sink) {
  int n_moved = 0;
  for (std::size_t i = 0; i < up_.size();) {
    const Link link = up_[i];
    at(link).writable = true;  // epoll was not asked: try
    n_moved += serve(link, sink);
    if (i < up_.size() && up_[i] == link) ++i;
  }
  return n_moved;
}

int TcpWire::serve_ready(Sink& sink) {
  int n_moved = 0;
  std::size_t n_kept = 0;
  const std::size_t n = ready_.size();
  for (std::size_t i = 0; i < n; ++i) {
    const Link link = ready_[i];
    Peer& peer = at(link);
    if (peer.state == Peer::State::up) n_moved += serve(link, sink);
    const bool more = peer.readable || (peer.writable && !peer.out.empty());
    if (peer.state == Peer::State::up && more)
      ready_[n_kept++] = link;
    else
      peer.listed = false;
  }
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(n_kept),
               ready_.begin() + static_cast<std::ptrdiff_t>(n));
  return n_moved;
}

Error TcpWire::explain_end(const Peer& peer) const {
  if (peer.in.said_bye()) return {Code::kOk, "it has left the job in good order"};
  std::string why = peer.in.why();
  if (why.empty() && peer.out.error()) why = strerror(peer.out.error());
  if (why.empty()) why = "closed by the other end: its process is gone, or has given this rank up";
  return {Code::kPeerFailed, fmt::format("TCP connection with {}: {}", peer.route, why)};
}

// The link then ends like one that the other end closed.
void TcpWire::withdraw(Link link) {
  Peer& peer = at(link);
  peer.out.give_up();
  peer.in.divert();
  if (peer.fd) ::shutdown(peer.fd.get(), SHUT_RDWR);
}

// --- Waiting and the end ---

bool TcpWire::arm() {
  collect_events();
  if (lobby_ready_) return false;
  return std::none_of(up_.begin(), up_.end(), [this](Link link) {
    const Peer& peer = at(link);
    return peer.readable || (peer.writable && !peer.out.empty()) || peer.out.error();
  });
}

void TcpWire::check(Sink& sink) {
  attend_lobby(sink);
  const std::int64_t now = now_ns();
  if (now - silence_at_ns_ < kSilencePeriodNs) return;
  silence_at_ns_ = now;
  look_for_silence(sink);
}

// A host that died or was cut off acknowledges nothing. One that is merely slow does: its kernel
// answers for a process that is stopped or does not read.
void TcpWire::look_for_silence(Sink& sink) {
  const std::vector<Link> up = up_;
  for (const Link link : up) {
    Peer& peer = at(link);
    if (peer.host_local) continue;
    tcp_info info = {};
    socklen_t n = sizeof info;
    if (::getsockopt(peer.fd.get(), IPPROTO_TCP, TCP_INFO, &info, &n) != 0) continue;
    const bool silent =
        (info.tcpi_unacked > 0 || info.tcpi_probes > 0) && info.tcpi_last_ack_recv > kSilentMs;
    if (!silent)
      peer.silent_since_ns = 0;
    else if (peer.silent_since_ns == 0)
      peer.silent_since_ns = silence_at_ns_;
    else if (silence_at_ns_ - peer.silent_since_ns >= options_.dead_ms * std::int64_t{1000000})
      take_down(link,
                {Code::kPeerFailed,
                 fmt::format("TCP connection with {}: nothing acknowledged for {} s, the host or "
                             "the network to it is gone",
                             peer.route, info.tcpi_last_ack_recv / 1000)},
                sink);
  }
}

bool TcpWire::drained() const {
  return std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    if (!peer || peer->state == Peer::State::down) return true;
    if (!peer->out.empty()) return false;
    int n_queued = 0;
    return peer->state != Peer::State::up || ::ioctl(peer->fd.get(), SIOCOUTQ, &n_queued) != 0 ||
           n_queued == 0;
  });
}

}  // namespace rlx
