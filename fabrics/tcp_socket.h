// SPDX-License-Identifier: MIT OR Apache-2.0
// Sockets of the TCP wire, never inherited by a child.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "fabrics/tcp_address.h"

namespace rlx::tcp {

// Which congestion control a socket gets: RLX_TCP_CONGESTION if set; else reno on loopback, where
// nothing is ever lost and bbr's pacing costs half the bandwidth, and the system's elsewhere.
struct Congestion {
  std::string wanted;
  const char* choose(bool host_local) const;  // nullptr: leave the system's
};

// Non-blocking, bound to `at` (its port, or a free one of `range` if that is not 0-0), listening;
// the port that it got goes into at.port.
Result<Fd> listen_on(SocketAddress& at, PortRange range, const Congestion& congestion);

// Begins to connect; the result is known when the socket is writable (so_error()).
Result<Fd> start_connect(const SocketAddress& to, const Congestion& congestion);
int so_error(int fd);

// For a stream between two ranks: no delay, and for a remote peer keepalives.
void tune_stream(int fd, bool host_local);

}  // namespace rlx::tcp
