// SPDX-License-Identifier: MIT OR Apache-2.0
// Where connections begin: listens, dials, and lets in only who greets as a rank of this job
// (fabrics/tcp_greeting.h). Everybody else is dropped with a line in the log.
//
// Dialling tries all addresses of a peer in dial_order(), a new one every kStaggerMs and at once
// when one fails, and keeps the first that greets as the peer. Both ranks of a pair may dial at
// the same moment, and a rank may be reachable in one direction only; exactly one connection
// survives by these rules:
//   - every genuine hello is answered with a welcome unless the pair is settled already;
//   - who gets a welcome confirms at once if its rank is the lower one; the higher rank first waits
//     for the end of any connection that it welcomed itself;
//   - the pair is settled when a confirm is sent or received; all its other connections are closed.
// So the higher rank never confirms while the lower one may, and the two never settle on different
// connections.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "fabrics/tcp_address.h"
#include "fabrics/tcp_greeting.h"
#include "fabrics/tcp_socket.h"

namespace rlx::tcp {

struct LobbyOptions {
  int rank = 0;
  std::string job_id;
  std::string net;         // as RLX_NET
  std::string port_range;  // as RLX_TCP_PORT_RANGE
  std::string congestion;  // as RLX_TCP_CONGESTION
  bool host_only = false;  // all ranks share this host: listen on the loopback only
  int connect_ms = 10000;  // to give up on a peer none of whose addresses accepts
  int greet_ms = 5000;     // for a stranger to greet
};

// A pair that is settled, or will never be.
struct Settled {
  int peer = -1;
  Fd fd;  // invalid: cannot be reached, and `why` says so
  bool host_local = false;
  std::string route;  // address of the other end
  Error why;
};

class Lobby {
 public:
  static Result<std::unique_ptr<Lobby>> open(const LobbyOptions& options);
  ~Lobby();

  const std::string& address() const { return address_; }
  // `address`: what the peer's address() says.
  Status add_peer(int peer, std::string_view address);
  // Of the same boot and network namespace: reached by the loopback.
  bool same_host(int peer) const;
  void dial(int peer);

  // Moves greetings along and appends pairs that were settled or failed.
  void progress(std::vector<Settled>& out);
  // Time matters now: somebody is dialled or greets.
  bool busy() const { return !dialled_.empty() || n_inbound_ > 0; }
  // Readable when a call of progress() has something to do.
  int fd() const { return epoll_.get(); }

 private:
  enum class Stage : std::uint8_t {
    listening,
    connecting,     // outbound
    await_welcome,  // outbound, hello sent
    welcomed,       // outbound, could confirm
    await_hello,    // inbound
    await_peer,     // inbound, hello of a rank that add_peer() has not named yet
    await_confirm,  // inbound, welcome sent
  };
  struct Guest {
    Fd fd;
    Stage stage;
    int peer = -1;
    SocketAddress at;  // listening: ours; outbound: where we dial
    std::int64_t deadline_ns = 0;
    std::size_t n_in = 0;
    GreetingBytes in{};
    Challenge mine{}, theirs{};
    bool inbound() const { return stage >= Stage::await_hello; }
  };
  struct Peer {
    PairKey key{};
    std::vector<SocketAddress> order;
    bool known = false;
    bool same_host = false;
    bool settled = false;
    std::size_t n_tried = 0;
    std::int64_t next_try_ns = 0;
    std::int64_t give_up_ns = 0;
    std::string tried;  // "10.0.0.2:4000 Connection refused; ..."
  };

  explicit Lobby(LobbyOptions options) : options_(std::move(options)) {}
  Status listen_everywhere();
  Peer* find(int peer);
  Status watch(Guest& guest, std::uint32_t events, bool again);
  void add_guest(std::unique_ptr<Guest> added, std::uint32_t events);
  void drop(Guest& guest);
  void drop_stranger(Guest& guest, std::string_view why);

  void accept_all(Guest& listener);
  void make_room_for_a_stranger();
  void try_next_address(int peer, std::int64_t now);
  void address_failed(Guest& guest, std::string_view why);
  void step(Guest& guest);
  void send_greeting(Guest& guest, GreetingKind kind);
  void on_greeting(Guest& guest);
  void on_hello(Guest& guest);
  void try_confirm(int peer);
  void settle(Guest& guest);
  bool has_guest(int peer, bool (*test)(const Guest&)) const;
  void look_at_clock(std::int64_t now);
  void look_at_dial(int peer, std::int64_t now);
  void sweep();

  LobbyOptions options_;
  Congestion congestion_;
  Published own_;
  std::vector<Interface> interfaces_;
  std::string address_;
  Fd epoll_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::vector<Peer> peers_;  // by rank
  std::vector<int> dialled_;
  std::vector<Settled> settled_;
  int n_inbound_ = 0;
  int n_strangers_ = 0;
  bool any_dropped_ = false;
};

}  // namespace rlx::tcp
