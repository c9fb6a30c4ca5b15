// SPDX-License-Identifier: MIT OR Apache-2.0
// The shared-memory wire. Every rank owns two kinds of memory that its local peers map: one area
// (its bell, a ring from each peer, regions for collectives), made before the bootstrap's fence,
// and pool segments (rlx_alloc), made when needed. Both are memfds that peers open through
// /proc/PID/fd: no name exists that could be left behind. Ranks that are threads of one process
// share the mappings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bootstrap.h"
#include "fabrics/wait.h"
#include "fabrics/wire.h"

namespace rlx {

class ShmWire final : public Wire {
 public:
  // Communicators that may own shared regions at the same time, and the size of a region.
  static constexpr int kChannels = 64;
  static constexpr std::size_t kRegionBytes = std::size_t{4} << 20;

  // `facts.local_ranks` may be empty (unknown): then any rank of the job may turn out to be local.
  static Result<std::unique_ptr<ShmWire>> create(const BootstrapFacts& facts);
  ~ShmWire() override;

  std::string_view name() const override { return "shm"; }
  std::string address() const override;
  Status connect(Link peer, std::string_view address) override;
  Caps caps(Link peer) const override;
  Posted post(Link peer, const Frame& frame) override;
  int progress(Sink& sink) override;
  void check(Sink& sink) override;
  Offer offers(Link peer, const void* data, std::uint64_t n_bytes) const override;
  Status read(Link peer, RemoteSpan from, void* to) override;
  void withdraw(Link peer) override;
  bool arm() override;
  void disarm() override;
  int fd() const override;
  Bell* bell() override;
  bool drained() const override;

  // The host's ranks outnumber their cores.
  void set_crowded(bool crowded);

  // --- For collectives inside the host ---

  // Ranks this wire reaches, ourselves among them, ascending.
  std::span<const Link> ranks() const;
  // kRegionBytes in peer's area (our own for our rank) for the communicator that owns `channel`:
  // aligned to a page, zero until somebody writes, memory used only where touched. The same bytes
  // for every rank that asks; who lays it out is coll. nullptr if the wire does not reach the peer.
  std::byte* region(Link peer, int channel);
  // Where `from`, an address in peer's pool, is mapped here; nullptr if it is not in its pool.
  // The first use of a segment maps it (slow); later ones cost a short search.
  std::byte* pool_pointer(Link peer, RemoteSpan from);
  // After a store that `peer` (any of `peers`) may be waiting for. Ourselves is allowed, for free.
  void ring(Link peer);
  void ring(std::span<const Link> peers);

  // --- The pool (rlx_alloc) ---

  // 128-byte aligned, backed before it returns: exhaustion is kNoMemory, never SIGBUS.
  Result<void*> pool_alloc(std::uint64_t n_bytes);
  Status pool_free(void* memory);
  bool in_pool(const void* data, std::uint64_t n_bytes) const;

 private:
  struct Impl;
  explicit ShmWire(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
