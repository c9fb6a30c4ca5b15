// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string_view>

namespace rlx {
namespace {

bool is_loopback(const IpAddress& ip) {
  if (!ip.v6) return ip.bytes[0] == 127;
  static constexpr IpAddress kLoopback6 = {true, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return ip == kLoopback6;
}

bool is_link_local6(const IpAddress& ip) {
  return ip.v6 && ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80;
}

// As the kernel lists it; nothing of another family.
std::optional<IpAddress> ip_of(const sockaddr* address) {
  if (!address || (address->sa_family != AF_INET && address->sa_family != AF_INET6))
    return std::nullopt;
  sockaddr_storage storage = {};
  std::memcpy(&storage, address,
              address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  return from_sockaddr(storage).ip;
}

int bits_of_mask(const sockaddr* mask) {
  int bits = 0;
  if (const auto ip = ip_of(mask))
    for (const unsigned char byte : ip->bytes) bits += __builtin_popcount(byte);
  return bits;
}

using Addresses = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

// Null when they cannot be listed.
Addresses all_addresses() {
  ifaddrs* first = nullptr;
  return {::getifaddrs(&first) == 0 ? first : nullptr, &::freeifaddrs};
}

// Asks the driver through ethtool's ioctl: it works in any namespace, /sys shows only one.
void ask_driver(int socket, Interface& interface) {
  ifreq request = {};
  std::strncpy(request.ifr_name, interface.name.c_str(), IFNAMSIZ - 1);
  ethtool_drvinfo driver = {};
  driver.cmd = ETHTOOL_GDRVINFO;
  request.ifr_data = reinterpret_cast<char*>(&driver);
  if (::ioctl(socket, SIOCETHTOOL, &request) == 0) {
    const std::string_view name(driver.driver, strnlen(driver.driver, sizeof driver.driver));
    if (name == "bridge") interface.kind = Interface::Kind::bridge;
    if (name == "veth" || name == "tun" || name == "dummy" || name == "openvswitch")
      interface.kind = Interface::Kind::made;
  } else {
    interface.kind = Interface::Kind::made;
  }
  ethtool_cmd settings = {};
  settings.cmd = ETHTOOL_GSET;
  request.ifr_data = reinterpret_cast<char*>(&settings);
  if (::ioctl(socket, SIOCETHTOOL, &request) == 0) {
    const auto speed = static_cast<int>(ethtool_cmd_speed(&settings));
    if (speed > 0) interface.speed_mbit = speed;
  }
}

}  // namespace

bool same_network(const IpAddress& a, const IpAddress& b, int prefix_bits) {
  if (a.v6 != b.v6) return false;
  for (int bit = 0; bit < prefix_bits; bit += 8) {
    const int left = std::min(8, prefix_bits - bit);
    const auto mask = static_cast<unsigned char>(0xff << (8 - left));
    const auto i = static_cast<std::size_t>(bit / 8);
    if ((a.bytes[i] & mask) != (b.bytes[i] & mask)) return false;
  }
  return true;
}

std::optional<IpAddress> parse_ip(const std::string& text) {
  IpAddress ip;
  if (inet_pton(AF_INET, text.c_str(), ip.bytes.data()) == 1) return ip;
  ip.v6 = true;
  if (inet_pton(AF_INET6, text.c_str(), ip.bytes.data()) == 1) return ip;
  return std::nullopt;
}

std::string to_string(const IpAddress& ip) {
  char text[INET6_ADDRSTRLEN] = "?";
  inet_ntop(ip.v6 ? AF_INET6 : AF_INET, ip.bytes.data(), text, sizeof text);
  return text;
}

std::string to_string(const SocketAddress& address) {
  const std::string ip = to_string(address.ip);
  return address.ip.v6 ? fmt::format("[{}]:{}", ip, address.port)
                       : fmt::format("{}:{}", ip, address.port);
}

socklen_t to_sockaddr(const SocketAddress& address, sockaddr_storage& out) {
  std::memset(&out, 0, sizeof out);
  if (address.ip.v6) {
    auto& in6 = reinterpret_cast<sockaddr_in6&>(out);
    in6.sin6_family = AF_INET6;
    in6.sin6_port = htons(address.port);
    std::memcpy(&in6.sin6_addr, address.ip.bytes.data(), 16);
    return sizeof in6;
  }
  auto& in = reinterpret_cast<sockaddr_in&>(out);
  in.sin_family = AF_INET;
  in.sin_port = htons(address.port);
  std::memcpy(&in.sin_addr, address.ip.bytes.data(), 4);
  return sizeof in;
}

SocketAddress from_sockaddr(const sockaddr_storage& from) {
  SocketAddress address;
  if (from.ss_family == AF_INET6) {
    const auto& in6 = reinterpret_cast<const sockaddr_in6&>(from);
    address.ip.v6 = true;
    address.port = ntohs(in6.sin6_port);
    std::memcpy(address.ip.bytes.data(), &in6.sin6_addr, 16);
  } else {
    const auto& in = reinterpret_cast<const sockaddr_in&>(from);
    address.port = ntohs(in.sin_port);
    std::memcpy(address.ip.bytes.data(), &in.sin_addr, 4);
  }
  return address;
}

std::string other_end(int socket) {
  sockaddr_storage storage = {};
  socklen_t n = sizeof storage;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&storage), &n) != 0) return "?";
  return to_string(from_sockaddr(storage));
}

Result<std::vector<Interface>> list_interfaces() {
  const Addresses addresses = all_addresses();
  if (!addresses) return fail_errno("cannot list the network interfaces");
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::vector<Interface> all;
  for (const ifaddrs* i = addresses.get(); i; i = i->ifa_next) {
    const auto ip = ip_of(i->ifa_addr);
    if (!ip || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING)) continue;
    Interface interface;
    interface.name = i->ifa_name;
    interface.ip = *ip;
    interface.prefix_bits = bits_of_mask(i->ifa_netmask);
    if (is_link_local6(interface.ip)) continue;
    if (is_loopback(interface.ip))
      interface.kind = Interface::Kind::loopback;
    else
      ask_driver(socket, interface);
    all.push_back(std::move(interface));
  }
  if (socket >= 0) ::close(socket);
  return all;
}

bool is_own_address(const IpAddress& ip) {
  const Addresses addresses = all_addresses();
  for (const ifaddrs* i = addresses.get(); i; i = i->ifa_next)
    if (ip_of(i->ifa_addr) == ip) return true;
  return false;
}

void sort_by_use(std::vector<Interface>& interfaces) {
  // IPv4 first among equals: it is the family that is set up everywhere.
  std::stable_sort(interfaces.begin(), interfaces.end(),
                   [](const Interface& a, const Interface& b) {
                     if (a.kind != b.kind) return a.kind < b.kind;
                     if (a.speed_mbit != b.speed_mbit) return a.speed_mbit > b.speed_mbit;
                     return a.ip.v6 < b.ip.v6;
                   });
}

}  // namespace rlx
