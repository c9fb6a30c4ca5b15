// SPDX-License-Identifier: MIT OR Apache-2.0
// What the engine needs from the fabrics. Two implementations: the endpoint (links.cc), and the
// simulator, which runs all ranks in one thread. Ranks here are ranks in the world.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "fabrics/request.h"
#include "fabrics/wait.h"

namespace rlx {

class Endpoint;

inline constexpr std::uint64_t kLongestTold = 4096;  // bytes

class Links {
 public:
  virtual ~Links() = default;

  // As in fabrics/endpoint.h.
  virtual Request* isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes) = 0;
  virtual Request* irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                         std::uint64_t n_bytes) = 0;
  // A receive that has matched nothing completes with kCancelled; false if it is too late.
  virtual bool cancel(Request* request) = 0;
  virtual void abandon(Request* message, std::int64_t after_ms) = 0;
  virtual bool poll() = 0;
  virtual const Error* failed(int rank) = 0;
  virtual int first_failed() = 0;
  virtual std::string host_of(int rank) = 0;
  // A short message (kLongestTold) that nobody waits for, and taking one with this tag (under the
  // mask) from anyone, if one has arrived.
  virtual void tell(int to, std::uint64_t tag, std::string_view bytes) = 0;
  struct Message {
    int source = -1;
    std::uint64_t tag = 0;
    std::string bytes;
  };
  virtual std::optional<Message> take(std::uint64_t tag, std::uint64_t mask) = 0;

  // Ranks outnumber the cores they share.
  virtual bool crowded() const = 0;

  // Shared memory: see fabrics/shm.h.
  virtual bool in_pool(const void* data, std::uint64_t n_bytes) = 0;
  virtual std::byte* pool_pointer(int rank, std::uint64_t address, std::uint64_t n_bytes) = 0;
  virtual void ring(std::span<const int> ranks) = 0;

  // Waits as fabrics/wait.h does until turn(state) says kDone.
  virtual Status until(Turn (*turn)(void* state), void* state, Deadline deadline) = 0;
};

std::unique_ptr<Links> make_links(Endpoint& endpoint);

}  // namespace rlx
