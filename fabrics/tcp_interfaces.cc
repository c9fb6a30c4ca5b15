// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of this host's addresses are worth listening on.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

#include "fabrics/tcp_address.h"

namespace rlx::tcp {
namespace {

bool is_loopback(const IpAddress& ip) {
  if (!ip.v6) return ip.bytes[0] == 127;
  static constexpr IpAddress kLoopback6 = {true, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return ip == kLoopback6;
}

bool is_link_local6(const IpAddress& ip) {
  return ip.v6 && ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80;
}

int bits_of_mask(const sockaddr* mask) {
  if (!mask) return 0;
  sockaddr_storage storage = {};
  std::memcpy(&storage, mask,
              mask->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  int bits = 0;
  for (const unsigned char byte : from_sockaddr(storage).ip.bytes) bits += __builtin_popcount(byte);
  return bits;
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

struct Network {
  IpAddress ip;
  int prefix_bits;
};

std::optional<Network> parse_cidr(const std::string& word) {
  const auto slash = word.find('/');
  const std::string address = word.substr(0, slash);
  Network network = {};
  if (inet_pton(AF_INET, address.c_str(), network.ip.bytes.data()) == 1)
    network.prefix_bits = 32;
  else if (inet_pton(AF_INET6, address.c_str(), network.ip.bytes.data()) == 1)
    network = {{true, network.ip.bytes}, 128};
  else
    return std::nullopt;
  if (slash == std::string::npos) return network;
  int bits = -1;
  const char* const end = word.data() + word.size();
  const auto got = std::from_chars(word.data() + slash + 1, end, bits);
  if (got.ec != std::errc() || got.ptr != end || bits < 0 || bits > network.prefix_bits)
    return std::nullopt;
  network.prefix_bits = bits;
  return network;
}

std::string show(const std::vector<Interface>& interfaces) {
  std::vector<std::string> words;
  for (const auto& i : interfaces)
    words.push_back(fmt::format("{} {}/{}", i.name, to_string(i.ip), i.prefix_bits));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

// Keeps what the words of RLX_NET name. A word may name nothing here if another one does: hosts of
// one job can differ.
Result<std::vector<Interface>> named_by(const std::vector<Interface>& all, std::string_view net) {
  std::vector<Interface> kept;
  std::string_view rest = net;
  while (!rest.empty()) {
    const auto comma = rest.find(',');
    const std::string word(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    const auto network = parse_cidr(word);
    if (!network && word.find('/') != std::string::npos)
      return fail(Code::kInvalid,
                  fmt::format("RLX_NET={}: '{}' is not a network in CIDR form, such "
                              "as 10.0.0.0/8 or fd00::/64",
                              net, word));
    for (const auto& interface : all) {
      if (network ? !same_network(network->ip, interface.ip, network->prefix_bits)
                  : interface.name != word)
        continue;
      const bool have = std::any_of(kept.begin(), kept.end(),
                                    [&](const Interface& k) { return k.ip == interface.ip; });
      if (!have) kept.push_back(interface);
    }
  }
  if (kept.empty())
    return fail(
        Code::kInvalid,
        fmt::format("RLX_NET={}: names no interface and no network of this host. Up here: {}", net,
                    show(all)));
  return kept;
}

}  // namespace

Result<std::vector<Interface>> list_interfaces() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return fail_errno("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::vector<Interface> all;
  for (const ifaddrs* i = first; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !(i->ifa_flags & IFF_RUNNING)) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    sockaddr_storage storage = {};
    std::memcpy(&storage, i->ifa_addr,
                family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    Interface interface;
    interface.name = i->ifa_name;
    interface.ip = from_sockaddr(storage).ip;
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

Result<std::vector<Interface>> select_interfaces(std::vector<Interface> all, std::string_view net,
                                                 bool host_only) {
  // IPv4 first among equals: it is the family that is set up everywhere.
  std::stable_sort(all.begin(), all.end(), [](const Interface& a, const Interface& b) {
    if (a.kind != b.kind) return a.kind < b.kind;
    if (a.speed_mbit != b.speed_mbit) return a.speed_mbit > b.speed_mbit;
    return a.ip.v6 < b.ip.v6;
  });
  const auto is_loop = [](const Interface& i) { return i.kind == Interface::Kind::loopback; };
  const auto loop = std::find_if(all.begin(), all.end(), is_loop);
  std::vector<Interface> chosen;
  if (!host_only || loop == all.end()) {
    chosen = all;
    if (!net.empty()) {
      RLX_TRY_ASSIGN(chosen, named_by(all, net));
    }
    std::erase_if(chosen, is_loop);
    if (chosen.size() > kMaxSockets - 1) chosen.resize(kMaxSockets - 1);
  }
  if (loop != all.end()) chosen.push_back(*loop);
  if (chosen.empty())
    return fail(Code::kUnreachable, "no network interface is up, not even the loopback");
  return chosen;
}

}  // namespace rlx::tcp
