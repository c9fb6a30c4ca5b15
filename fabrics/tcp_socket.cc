// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp_socket.h"

#include <errno.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sodium.h>
#include <string.h>
#include <sys/socket.h>

namespace rlx::tcp {
namespace {

void set_int(int fd, int level, int option, int value) {
  (void)::setsockopt(fd, level, option, &value, sizeof value);
}

Status set_congestion(int fd, const Congestion& congestion, bool host_local) {
  const char* const name = congestion.choose(host_local);
  if (!name) return {};
  if (::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)) == 0) return {};
  if (congestion.wanted.empty()) return {};  // our preference only: the system's will do
  return fail(Code::kInvalid,
              fmt::format("RLX_TCP_CONGESTION={}: the kernel does not let us use it: {} "
                          "(sysctl net.ipv4.tcp_allowed_congestion_control)",
                          congestion.wanted, strerror(errno)));
}

Result<Fd> open_socket(const SocketAddress& at) {
  Fd fd(::socket(at.ip.v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("cannot make a socket");
  return fd;
}

Status bind_to(int fd, const SocketAddress& at) {
  sockaddr_storage storage;
  const socklen_t n = to_sockaddr(at, storage);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&storage), n) == 0) return {};
  return fail_errno("cannot listen on " + to_string(at));
}

// Begins somewhere in the range, so that the ranks of a host do not all try the same ports first.
Status bind_in_range(int fd, SocketAddress at, PortRange range) {
  const std::uint32_t n_ports = range.last - range.first + 1u;
  const std::uint32_t start = randombytes_uniform(n_ports);
  Status last;
  for (std::uint32_t i = 0; i < n_ports; ++i) {
    at.port = static_cast<std::uint16_t>(range.first + (start + i) % n_ports);
    last = bind_to(fd, at);
    if (last || errno != EADDRINUSE) return last;
  }
  return fail(Code::kSystem, fmt::format("all ports of RLX_TCP_PORT_RANGE={}-{} are in use on {}",
                                         range.first, range.last, to_string(at.ip)));
}

}  // namespace

const char* Congestion::choose(bool host_local) const {
  if (!wanted.empty()) return wanted.c_str();
  return host_local ? "reno" : nullptr;
}

Result<Fd> listen_on(SocketAddress& at, PortRange range, const Congestion& congestion) {
  RLX_TRY_ASSIGN(Fd fd, open_socket(at));
  if (at.ip.v6) set_int(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
  RLX_TRY(set_congestion(fd.get(), congestion, at.host_local));
  if (range.first != 0)
    RLX_TRY(bind_in_range(fd.get(), at, range));
  else
    RLX_TRY(bind_to(fd.get(), at));
  if (::listen(fd.get(), SOMAXCONN) != 0) return fail_errno("cannot listen on " + to_string(at));
  sockaddr_storage storage = {};
  socklen_t n = sizeof storage;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &n) != 0)
    return fail_errno("cannot learn the port of " + to_string(at));
  at.port = from_sockaddr(storage).port;
  return fd;
}

Result<Fd> start_connect(const SocketAddress& to, const Congestion& congestion) {
  RLX_TRY_ASSIGN(Fd fd, open_socket(to));
  RLX_TRY(set_congestion(fd.get(), congestion, to.host_local));
  sockaddr_storage storage;
  const socklen_t n = to_sockaddr(to, storage);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), n) != 0 && errno != EINPROGRESS)
    return fail_errno("connect");
  return fd;
}

int so_error(int fd) {
  int error = 0;
  socklen_t n = sizeof error;
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 ? error : errno;
}

void tune_stream(int fd, bool host_local) {
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  if (host_local) return;
  // Finds a host that died while nobody sends. While somebody sends, TcpWire::check() looks at the
  // acknowledgements itself: TCP_USER_TIMEOUT would also kill links to a rank that computes for
  // long without reading.
  set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, 5);
}

}  // namespace rlx::tcp
