// SPDX-License-Identifier: MIT OR Apache-2.0
// Shorthand for tests whose ranks talk through endpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fabrics/endpoint.h"
#include "test/support/fork_world.h"

namespace rlx::test {

inline Deadline soon() { return Deadline::after_ms(30000); }

inline std::unique_ptr<Endpoint> open(Bootstrap& boot, const char* fabrics = "") {
  auto endpoint = open_endpoint(boot, soon(), fabrics);
  RLX_EXPECT_OK(endpoint);
  return std::move(*endpoint);
}

// A body whose ranks get an endpoint and leave together.
inline RankBody with_endpoint(std::function<void(Endpoint&)> body, const char* fabrics = "") {
  return [body = std::move(body), fabrics](Bootstrap& boot) {
    auto endpoint = open(boot, fabrics);
    body(*endpoint);
    RLX_EXPECT_OK(endpoint->flush(soon()));
    RLX_EXPECT_OK(boot.finalize(soon()));
  };
}

// The request's status, after which it is released. nullptr is a send that is done.
inline Status finish(Endpoint& ep, Request* request) {
  if (request == nullptr) return {};
  const Status status = ep.wait(request, soon());
  if (request->done) request->release();
  return status;
}

inline void send(Endpoint& ep, int to, std::uint64_t tag, const void* data, std::uint64_t n) {
  RLX_EXPECT_OK(finish(ep, ep.isend(to, tag, data, n)));
}

inline void recv(Endpoint& ep, int from, std::uint64_t tag, void* data, std::uint64_t n) {
  RLX_EXPECT_OK(finish(ep, ep.irecv(from, tag, kWholeTag, data, n)));
}

// Bytes that differ by seed and place.
inline void fill(char* data, std::uint64_t n, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < n; ++i)
    data[i] = static_cast<char>((seed * 131 + i * 7 + (i >> 8) * 13) & 0xff);
}

inline std::vector<char> pattern(std::uint64_t n, std::uint64_t seed) {
  std::vector<char> data(n);
  fill(data.data(), n, seed);
  return data;
}

}  // namespace rlx::test
