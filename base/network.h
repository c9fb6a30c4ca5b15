// SPDX-License-Identifier: MIT OR Apache-2.0
// Addresses of sockets, and the interfaces of this host that have some.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace rlx {

struct IpAddress {
  bool v6 = false;
  std::array<unsigned char, 16> bytes{};  // the first 4 for IPv4, network order
  bool operator==(const IpAddress&) const = default;
};

struct SocketAddress {
  IpAddress ip;
  std::uint16_t port = 0;
  bool host_local = false;  // a loopback address: the same bytes mean another host elsewhere
  bool operator==(const SocketAddress&) const = default;
};

// Whether their first bits are the same.
bool same_network(const IpAddress& a, const IpAddress& b, int prefix_bits);
std::optional<IpAddress> parse_ip(const std::string& text);
std::string to_string(const IpAddress& ip);
std::string to_string(const SocketAddress& address);  // 10.0.0.1:4000, [fd00::1]:4000
// Fills `out`; returns its length.
socklen_t to_sockaddr(const SocketAddress& address, sockaddr_storage& out);
SocketAddress from_sockaddr(const sockaddr_storage& from);
// Address of a socket's other end, "?" if there is none any more.
std::string other_end(int socket);

// One address of an interface.
struct Interface {
  enum class Kind : std::uint8_t { device, made, bridge, loopback };  // most useful first
  std::string name;
  IpAddress ip;
  int prefix_bits = 0;
  Kind kind = Kind::device;
  int speed_mbit = 0;  // 0: not known
};

// All addresses of interfaces that are up and have a carrier, without link-local IPv6 ones (their
// scope has no meaning on another host).
Result<std::vector<Interface>> list_interfaces();
// Whether any interface has it, be it down.
bool is_own_address(const IpAddress& ip);
// Most useful first: real devices before made ones and bridges, fast ones before slow ones.
void sort_by_use(std::vector<Interface>& interfaces);

}  // namespace rlx
