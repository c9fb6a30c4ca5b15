// SPDX-License-Identifier: MIT OR Apache-2.0
// The TCP wire: one connection between two ranks, made when the first of them posts.
//
// With few connections progress() reads each socket directly, the cheapest way to notice a small
// message soon; with more it asks epoll which ones are ready, so that a turn costs the same for any
// number of peers. All sockets are in one epoll, edge-triggered, whose descriptor is fd().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bootstrap.h"
#include "fabrics/tcp_lobby.h"
#include "fabrics/tcp_stream.h"
#include "fabrics/wire.h"

namespace rlx {

struct TcpOptions : tcp::LobbyOptions {
  int dead_ms = 10000;  // silence, with something unacknowledged, after which a host counts as dead
};

class TcpWire final : public Wire {
 public:
  // As the knobs say.
  static Result<std::unique_ptr<TcpWire>> create(const BootstrapFacts& facts);
  static Result<std::unique_ptr<TcpWire>> create(const TcpOptions& options);
  ~TcpWire() override;

  std::string_view name() const override { return "tcp"; }
  std::string address() const override { return lobby_->address(); }
  Status connect(Link peer, std::string_view address) override;
  Caps caps(Link peer) const override;
  Posted post(Link peer, const Frame& frame) override;
  int progress(Sink& sink) override;
  void check(Sink& sink) override;
  void withdraw(Link peer) override;
  bool arm() override;
  void disarm() override {}
  int fd() const override { return epoll_.get(); }
  bool drained() const override;

 private:
  struct Peer {
    enum class State : std::uint8_t { unknown, idle, dialling, up, down };
    State state = State::unknown;
    bool host_local = false;
    bool readable = false;  // as far as we know
    bool writable = false;
    bool listed = false;  // in ready_
    Fd fd;
    tcp::OutStream out;
    tcp::InStream in;
    std::string route;
    std::int64_t silent_since_ns = 0;
  };

  TcpWire(TcpOptions options, std::unique_ptr<tcp::Lobby> lobby, Fd epoll);
  Peer& at(Link peer) { return *peers_[static_cast<std::size_t>(peer)]; }
  void attend_lobby(Sink& sink);
  void bring_up(tcp::Settled settled, Sink& sink);
  void take_down(Link link, Error why, Sink& sink);
  void collect_events();
  int serve(Link link, Sink& sink);
  int serve_all(Sink& sink);
  int serve_ready(Sink& sink);
  bool lobby_is_due();
  void look_for_silence(Sink& sink);
  Error explain_end(const Peer& peer) const;

  TcpOptions options_;
  std::unique_ptr<tcp::Lobby> lobby_;
  Fd epoll_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank
  std::vector<Link> up_;
  std::vector<Link> ready_;
  std::vector<tcp::Settled> settled_;
  bool lobby_ready_ = false;
  std::uint32_t n_turns_ = 0;
  std::int64_t lobby_at_ns_ = 0;
  std::int64_t silence_at_ns_ = 0;
};

}  // namespace rlx
