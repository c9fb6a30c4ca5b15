// SPDX-License-Identifier: MIT OR Apache-2.0
// Where a rank can be reached by TCP: which interfaces are worth listening on, what is published
// about them, and in which order a peer tries them.
//
// The published form (bytes, little-endian):
//   u8 version 1, host (16), nonce (32), u8 n, then n times
//   u8 flags (1: IPv6, 2: host-local), u8 0, u16 port, address (4 or 16)
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/network.h"
#include "base/result.h"
#include "fabrics/tcp_greeting.h"

namespace rlx::tcp {

// More interfaces than this are not published.
inline constexpr std::size_t kMaxSockets = 16;

using rlx::from_sockaddr;
using rlx::Interface;
using rlx::IpAddress;
using rlx::list_interfaces;
using rlx::same_network;
using rlx::SocketAddress;
using rlx::to_sockaddr;
using rlx::to_string;

// Which loopback a process sees: equal for two processes of one boot and one network namespace.
using HostKey = std::array<unsigned char, 16>;
HostKey this_host();

struct Published {
  HostKey host{};
  Nonce nonce{};
  std::vector<SocketAddress> sockets;  // most useful first
};
std::string encode_published(const Published& published);
Result<Published> decode_published(std::string_view bytes);

// Those worth listening on, most useful first. `net` (RLX_NET): interface names and networks in
// CIDR form by comma; empty means all. One loopback address always stays for ranks of this host.
// `host_only` leaves nothing but that one.
Result<std::vector<Interface>> select_interfaces(std::vector<Interface> all, std::string_view net,
                                                 bool host_only);

// What to try to reach `peer` from `here`, in this order. Drops what cannot be the peer: loopback
// addresses of another host, and addresses that `own` has itself (every docker0 is 172.17.0.1).
std::vector<SocketAddress> dial_order(const HostKey& here, const std::vector<Interface>& own,
                                      const Published& peer);

struct PortRange {
  std::uint16_t first = 0, last = 0;  // 0, 0: any free port
};
Result<PortRange> parse_port_range(std::string_view text);

}  // namespace rlx::tcp
