// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/bytes.h"

namespace rlx::tcp {
namespace {

constexpr std::uint8_t kPublishedVersion = 1;
enum : std::uint8_t { kFlagV6 = 1, kFlagHostLocal = 2 };

std::size_t bytes_of(const IpAddress& ip) { return ip.v6 ? 16 : 4; }

template <std::size_t N>
std::array<unsigned char, N> get_array(ByteReader& in, std::size_t n = N) {
  std::array<unsigned char, N> out{};
  for (std::size_t i = 0; i < n; ++i) out[i] = in.get<std::uint8_t>();
  return out;
}

}  // namespace

HostKey this_host() {
  // The boot id tells machines apart, the namespace tells apart containers on one machine.
  struct {
    char boot_id[64];
    std::uint64_t device, inode;
  } seen = {};
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  const bool known = fd >= 0 && ::read(fd, seen.boot_id, sizeof seen.boot_id) > 0;
  if (fd >= 0) ::close(fd);
  struct stat ns;
  HostKey key;
  if (!known || ::stat("/proc/self/ns/net", &ns) != 0) {
    randombytes_buf(key.data(), key.size());  // no /proc: never taken for somebody's neighbour
    return key;
  }
  seen.device = ns.st_dev;
  seen.inode = ns.st_ino;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(&seen),
                     sizeof seen, nullptr, 0);
  return key;
}

std::string encode_published(const Published& published) {
  ByteWriter out;
  out.put(kPublishedVersion);
  for (const auto byte : published.host) out.put(byte);
  for (const auto byte : published.nonce) out.put(byte);
  out.put(static_cast<std::uint8_t>(published.sockets.size()));
  for (const auto& socket : published.sockets) {
    out.put(static_cast<std::uint8_t>((socket.ip.v6 ? kFlagV6 : 0) |
                                      (socket.host_local ? kFlagHostLocal : 0)));
    out.put(std::uint8_t{0});
    out.put(socket.port);
    for (std::size_t i = 0; i < bytes_of(socket.ip); ++i) out.put(socket.ip.bytes[i]);
  }
  return out.take();
}

Result<Published> decode_published(std::string_view bytes) {
  ByteReader in(bytes);
  Published out;
  const int version = in.get<std::uint8_t>();
  if (in.ok() && version != kPublishedVersion)
    return fail(Code::kUnreachable,
                fmt::format("its TCP address has version {}, this rlx reads version {}: run the "
                            "same rlx on all hosts",
                            version, kPublishedVersion));
  out.host = get_array<16>(in);
  out.nonce = get_array<32>(in);
  const std::size_t n = in.get<std::uint8_t>();
  for (std::size_t i = 0; i < n && in.ok(); ++i) {
    SocketAddress socket;
    const auto flags = in.get<std::uint8_t>();
    in.get<std::uint8_t>();
    socket.port = in.get<std::uint16_t>();
    socket.ip.v6 = (flags & kFlagV6) != 0;
    socket.host_local = (flags & kFlagHostLocal) != 0;
    socket.ip.bytes = get_array<16>(in, bytes_of(socket.ip));
    out.sockets.push_back(socket);
  }
  if (!in.at_end() || n == 0 || n > kMaxSockets)
    return fail(Code::kUnreachable,
                fmt::format("its TCP address is malformed ({} bytes)", bytes.size()));
  return out;
}

std::vector<SocketAddress> dial_order(const HostKey& here, const std::vector<Interface>& own,
                                      const Published& peer) {
  const bool same_host = here == peer.host;
  std::vector<std::pair<int, SocketAddress>> ranked;
  for (const auto& socket : peer.sockets) {
    const bool ours =
        std::any_of(own.begin(), own.end(), [&](const Interface& i) { return i.ip == socket.ip; });
    if (!same_host && (socket.host_local || ours)) continue;
    const bool near = std::any_of(own.begin(), own.end(), [&](const Interface& i) {
      return i.kind < Interface::Kind::bridge && same_network(i.ip, socket.ip, i.prefix_bits);
    });
    ranked.emplace_back(same_host && socket.host_local ? 0 : near ? 1 : 2, socket);
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<SocketAddress> order;
  for (const auto& [rank, socket] : ranked) order.push_back(socket);
  return order;
}

Result<PortRange> parse_port_range(std::string_view text) {
  if (text.empty()) return PortRange{};
  const char* const end = text.data() + text.size();
  int first = 0, last = 0;
  auto got = std::from_chars(text.data(), end, first);
  if (got.ec == std::errc() && got.ptr != end && *got.ptr == '-')
    got = std::from_chars(got.ptr + 1, end, last);
  if (got.ec != std::errc() || got.ptr != end || first < 1 || last < first || last > 65535)
    return fail(Code::kInvalid,
                fmt::format("RLX_TCP_PORT_RANGE={}: want first-last with 1 <= first <= last <= "
                            "65535, such as 50000-50999",
                            text));
  return PortRange{static_cast<std::uint16_t>(first), static_cast<std::uint16_t>(last)};
}

}  // namespace rlx::tcp
