// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp_lobby.h"

#include <errno.h>
#include <fmt/format.h>
#include <sodium.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/words.h"

namespace rlx::tcp {
namespace {

constexpr int kStaggerMs = 50;
// After the last address failed, a peer that dials us meanwhile is still welcome.
constexpr int kGraceMs = 500;
constexpr std::size_t kMaxStrangers = 256;
constexpr int kMaxReported = 8;
constexpr std::int64_t kMs = 1000000;

}  // namespace

Result<std::unique_ptr<Lobby>> Lobby::open(const LobbyOptions& options) {
  if (sodium_init() < 0) return fail(Code::kSystem, "libsodium does not start");
  std::unique_ptr<Lobby> lobby(new Lobby(options));
  RLX_TRY(lobby->listen_everywhere());
  return lobby;
}

Lobby::~Lobby() = default;

Status Lobby::listen_everywhere() {
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return fail_errno("epoll_create1");
  congestion_ = {options_.congestion};
  own_.host = this_host();
  own_.nonce = random_nonce();
  RLX_TRY_ASSIGN(interfaces_, list_interfaces());
  RLX_TRY_ASSIGN(const auto chosen,
                 select_interfaces(interfaces_, options_.net, options_.host_only));
  RLX_TRY_ASSIGN(const PortRange range, parse_port_range(options_.port_range));
  Status last;
  for (const Interface& interface : chosen) {
    SocketAddress at;
    at.ip = interface.ip;
    at.host_local = interface.kind == Interface::Kind::loopback;
    auto fd = listen_on(at, range, congestion_);
    if (!fd) {  // an address can vanish, or be IPv6 that is still being checked for duplicates
      last = tl::unexpected<Error>(std::move(fd.error()));
      log::info("tcp: {} not used: {}", interface.name, last.error().text);
      continue;
    }
    own_.sockets.push_back(at);
    auto guest = std::make_unique<Guest>();
    guest->fd = std::move(*fd);
    guest->stage = Stage::listening;
    guest->at = at;
    // Edge-triggered: a listener that cannot accept (no descriptors left) must not wake us for
    // ever.
    add_guest(std::move(guest), EPOLLIN | EPOLLET);
  }
  if (own_.sockets.empty()) return last;
  address_ = encode_published(own_);
  return {};
}

Lobby::Peer* Lobby::find(int peer) {
  if (peer < 0 || static_cast<std::size_t>(peer) >= peers_.size()) return nullptr;
  Peer& found = peers_[static_cast<std::size_t>(peer)];
  return found.known ? &found : nullptr;
}

Status Lobby::add_peer(int peer, std::string_view address) {
  RLX_TRY_ASSIGN(const Published published, decode_published(address));
  auto order = dial_order(own_.host, interfaces_, published);
  if (order.empty())
    return fail(
        Code::kUnreachable,
        "none of its addresses leads from this host to its own: it listens on its loopback, or "
        "on addresses that this host has too (docker0?); name a network that joins them in "
        "RLX_NET");
  if (peers_.size() <= static_cast<std::size_t>(peer))
    peers_.resize(static_cast<std::size_t>(peer) + 1);
  Peer& entry = peers_[static_cast<std::size_t>(peer)];
  const bool lower = options_.rank < peer;
  entry.key = pair_key(options_.job_id, lower ? own_.nonce : published.nonce,
                       lower ? published.nonce : own_.nonce);
  entry.order = std::move(order);
  entry.same_host = published.host == own_.host;
  entry.known = true;
  for (const auto& guest : guests_)
    if (guest->stage == Stage::await_peer && guest->peer == peer) on_hello(*guest);
  return {};
}

bool Lobby::same_host(int peer) const {
  return static_cast<std::size_t>(peer) < peers_.size() &&
         peers_[static_cast<std::size_t>(peer)].same_host;
}

void Lobby::dial(int peer) {
  Peer& entry = *find(peer);
  if (entry.settled) return;
  if (std::find(dialled_.begin(), dialled_.end(), peer) != dialled_.end()) return;
  const std::int64_t now = now_ns();
  dialled_.push_back(peer);
  entry.give_up_ns = now + options_.connect_ms * kMs;
  try_next_address(peer, now);
}

// --- Guests ---

Status Lobby::watch(Guest& guest, std::uint32_t events, bool again) {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = &guest;
  if (::epoll_ctl(epoll_.get(), again ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, guest.fd.get(), &event) == 0)
    return {};
  return fail_errno("epoll_ctl");
}

void Lobby::add_guest(std::unique_ptr<Guest> added, std::uint32_t events) {
  Guest& guest = *added;
  guests_.push_back(std::move(added));
  n_inbound_ += guest.inbound();
  if (const auto status = watch(guest, events, false); !status) {
    log::warn("tcp: {}", status.error().text);
    drop(guest);
  }
}

// Guests are only marked here: events of the same epoll_wait may still point to them.
void Lobby::drop(Guest& guest) {
  n_inbound_ -= guest.inbound();
  guest.fd.reset();
  any_dropped_ = true;
}

void Lobby::sweep() {
  if (!any_dropped_) return;
  any_dropped_ = false;
  std::erase_if(guests_, [](const auto& guest) { return !guest->fd; });
}

void Lobby::drop_stranger(Guest& guest, std::string_view why) {
  if (++n_strangers_ <= kMaxReported)
    log::warn("tcp: dropped a connection from {} to {}: {}{}", other_end(guest.fd.get()),
              to_string(guest.at), why,
              n_strangers_ == kMaxReported ? " (further ones are not reported)" : "");
  drop(guest);
}

bool Lobby::has_guest(int peer, bool (*test)(const Guest&)) const {
  return std::any_of(guests_.begin(), guests_.end(), [&](const auto& guest) {
    return guest->fd && guest->peer == peer && test(*guest);
  });
}

// --- Inbound ---

void Lobby::accept_all(Guest& listener) {
  for (;;) {
    Fd fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN)
        log::warn("tcp: cannot accept a connection on {}: {}", to_string(listener.at),
                  strerror(errno));
      return;
    }
    tune_stream(fd.get(), listener.at.host_local);
    make_room_for_a_stranger();
    auto guest = std::make_unique<Guest>();
    guest->fd = std::move(fd);
    guest->stage = Stage::await_hello;
    guest->at = listener.at;
    guest->deadline_ns = now_ns() + options_.greet_ms * kMs;
    Guest& added = *guest;
    add_guest(std::move(guest), EPOLLIN);
    if (added.fd) step(added);  // a rank has mostly said hello already
  }
}

// All ranks of a job may come at the same moment, so the limit grows with the job.
void Lobby::make_room_for_a_stranger() {
  const auto is_stranger = [](const auto& g) { return g->fd && g->stage == Stage::await_hello; };
  const auto n = std::count_if(guests_.begin(), guests_.end(), is_stranger);
  if (static_cast<std::size_t>(n) < kMaxStrangers + peers_.size()) return;
  drop_stranger(**std::find_if(guests_.begin(), guests_.end(), is_stranger),
                "too many connections that do not greet");
}

void Lobby::on_hello(Guest& guest) {
  Greeting hello;
  if (const char* wrong = decode_greeting(guest.in, hello)) return drop_stranger(guest, wrong);
  if (hello.kind != GreetingKind::hello) return drop_stranger(guest, "not a hello");
  if (hello.to != options_.rank || hello.from == options_.rank)
    return drop_stranger(
        guest, fmt::format("it looks for rank {}, this is rank {}", hello.to, options_.rank));
  guest.peer = hello.from;
  Peer* const peer = find(hello.from);
  if (!peer) {
    guest.stage = Stage::await_peer;
    return;
  }
  if (!is_genuine(guest.in, Challenge{}, peer->key))
    return drop_stranger(guest,
                         fmt::format("it does not prove to be rank {} of this job", hello.from));
  if (peer->settled) return drop(guest);
  guest.theirs = hello.challenge;
  guest.mine = random_challenge();
  guest.stage = Stage::await_confirm;
  guest.deadline_ns = 0;
  guest.n_in = 0;
  send_greeting(guest, GreetingKind::welcome);
}

// --- Outbound ---

void Lobby::try_next_address(int peer, std::int64_t now) {
  Peer& entry = *find(peer);
  while (entry.n_tried < entry.order.size()) {
    const SocketAddress& to = entry.order[entry.n_tried++];
    entry.next_try_ns = now + kStaggerMs * kMs;
    auto fd = start_connect(to, congestion_);
    if (!fd) {
      entry.tried +=
          fmt::format("{}{} {}", entry.tried.empty() ? "" : "; ", to_string(to), fd.error().text);
      continue;
    }
    tune_stream(fd->get(), to.host_local);
    auto guest = std::make_unique<Guest>();
    guest->fd = std::move(*fd);
    guest->stage = Stage::connecting;
    guest->peer = peer;
    guest->at = to;
    return add_guest(std::move(guest), EPOLLOUT);
  }
}

void Lobby::address_failed(Guest& guest, std::string_view why) {
  const int peer = guest.peer;
  Peer& entry = *find(peer);
  entry.tried += fmt::format("{}{} {}", entry.tried.empty() ? "" : "; ", to_string(guest.at), why);
  drop(guest);
  if (!entry.settled) try_next_address(peer, now_ns());
}

void Lobby::send_greeting(Guest& guest, GreetingKind kind) {
  const auto bytes = encode_greeting({kind, options_.rank, guest.peer, guest.mine}, guest.theirs,
                                     find(guest.peer)->key);
  // Fits the empty buffer of a fresh socket; anything else is a broken connection, which the next
  // read finds.
  (void)::send(guest.fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

void Lobby::step(Guest& guest) {
  if (guest.stage == Stage::connecting) {
    if (const int error = so_error(guest.fd.get())) return address_failed(guest, strerror(error));
    guest.mine = random_challenge();
    guest.stage = Stage::await_welcome;
    send_greeting(guest, GreetingKind::hello);
    (void)watch(guest, EPOLLIN, true);
    return;
  }
  const ssize_t n =
      ::recv(guest.fd.get(), guest.in.data() + guest.n_in, guest.in.size() - guest.n_in, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    const char* const why = n == 0 ? "closed before the end of its greeting" : strerror(errno);
    if (!guest.inbound()) return address_failed(guest, why);
    // One that says nothing may be a rank that was quicker by another of our addresses.
    const bool is_stranger = guest.stage == Stage::await_hello && guest.n_in > 0;
    return is_stranger ? drop_stranger(guest, why) : drop(guest);
  }
  guest.n_in += static_cast<std::size_t>(n);
  if (!may_be_greeting(guest.in, guest.n_in)) {
    const std::string why =
        fmt::format("it said \"{}\" instead of a greeting",
                    excerpt({reinterpret_cast<const char*>(guest.in.data()), guest.n_in}));
    return guest.inbound() ? drop_stranger(guest, why) : address_failed(guest, why);
  }
  if (guest.n_in == guest.in.size()) on_greeting(guest);
}

void Lobby::on_greeting(Guest& guest) {
  if (guest.stage == Stage::await_hello) return on_hello(guest);
  Greeting greeting;
  const char* wrong = decode_greeting(guest.in, greeting);
  const auto expected =
      guest.stage == Stage::await_welcome ? GreetingKind::welcome : GreetingKind::confirm;
  if (!wrong &&
      (greeting.kind != expected || greeting.from != guest.peer || greeting.to != options_.rank ||
       !is_genuine(guest.in, guest.mine, find(guest.peer)->key)))
    wrong = "it does not prove to be the rank that was looked for";
  if (wrong) return guest.inbound() ? drop_stranger(guest, wrong) : address_failed(guest, wrong);
  if (guest.stage == Stage::await_confirm) return settle(guest);
  guest.theirs = greeting.challenge;
  guest.stage = Stage::welcomed;
  (void)watch(guest, EPOLLRDHUP, true);  // only its end can come now
  try_confirm(guest.peer);
}

// --- Settling ---

void Lobby::try_confirm(int peer) {
  const Peer* const entry = find(peer);
  if (!entry || entry->settled) return;
  const auto welcomed_here = [](const Guest& g) { return g.stage == Stage::await_confirm; };
  if (options_.rank > peer && has_guest(peer, welcomed_here)) return;
  for (const auto& guest : guests_) {
    if (!guest->fd || guest->peer != peer || guest->stage != Stage::welcomed) continue;
    send_greeting(*guest, GreetingKind::confirm);
    return settle(*guest);
  }
}

void Lobby::settle(Guest& guest) {
  const int peer = guest.peer;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, guest.fd.get(), nullptr);
  Settled settled;
  settled.peer = peer;
  settled.host_local = guest.at.host_local;
  settled.route = other_end(guest.fd.get());
  settled.fd = std::move(guest.fd);
  drop(guest);
  settled_.push_back(std::move(settled));
  find(peer)->settled = true;
  std::erase(dialled_, peer);
  for (const auto& other : guests_)
    if (other->fd && other->peer == peer) drop(*other);
}

// --- Time ---

void Lobby::look_at_dial(int peer, std::int64_t now) {
  Peer& entry = *find(peer);
  const bool all_tried = entry.n_tried == entry.order.size();
  if (!all_tried && now >= entry.next_try_ns) try_next_address(peer, now);
  const auto any = [](const Guest&) { return true; };
  const auto answered = [](const Guest& g) { return g.stage != Stage::connecting; };
  if (all_tried && !has_guest(peer, any))
    entry.give_up_ns = std::min(entry.give_up_ns, now + kGraceMs * kMs);
  if (now < entry.give_up_ns || has_guest(peer, answered)) return;
  for (const auto& guest : guests_) {
    if (!guest->fd || guest->peer != peer) continue;
    entry.tried += fmt::format("{}{} no answer in {} s", entry.tried.empty() ? "" : "; ",
                               to_string(guest->at), options_.connect_ms / 1000);
    drop(*guest);
  }
  Settled failed;
  failed.peer = peer;
  failed.why = {Code::kUnreachable,
                fmt::format("no TCP connection to rank {}: {}. Is its process still there, does a "
                            "firewall drop packets, is RLX_NET (here '{}') right?",
                            peer, entry.tried, options_.net)};
  settled_.push_back(std::move(failed));
  entry.settled = true;
  std::erase(dialled_, peer);
}

void Lobby::look_at_clock(std::int64_t now) {
  const std::vector<int> dialled = dialled_;
  for (const int peer : dialled) look_at_dial(peer, now);
  for (const auto& guest : guests_)
    if (guest->fd && guest->deadline_ns != 0 && now >= guest->deadline_ns)
      drop_stranger(*guest, fmt::format("no greeting within {} ms", options_.greet_ms));
}

void Lobby::progress(std::vector<Settled>& out) {
  epoll_event events[32];
  const int n = ::epoll_wait(epoll_.get(), events, 32, 0);
  for (int i = 0; i < n; ++i) {
    Guest& guest = *static_cast<Guest*>(events[i].data.ptr);
    if (!guest.fd) continue;
    if (guest.stage == Stage::listening)
      accept_all(guest);
    else
      step(guest);
    if (!guest.fd) try_confirm(guest.peer);
  }
  if (busy()) look_at_clock(now_ns());
  sweep();
  for (auto& settled : settled_) out.push_back(std::move(settled));
  settled_.clear();
}

}  // namespace rlx::tcp
