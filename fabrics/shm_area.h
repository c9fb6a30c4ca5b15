// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank shows its local peers: one segment with its bell, the rings its peers write into,
// and the regions collectives work in.
//
//   AreaHeader | readable_by[n_slots] | given_up[n_slots] | ring from slot 0 | ring from slot 1 ...
//   | regions
//
// A slot is a rank's place among the ranks that may be on this host; all of them agree on it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bootstrap.h"
#include "base/result.h"
#include "fabrics/shm_pool.h"
#include "fabrics/shm_ring.h"
#include "fabrics/wait.h"

namespace rlx {

struct AreaHeader {
  static constexpr std::uint64_t kMagic = 0x31616572615f786c;

  std::uint64_t magic;
  std::uint64_t nonce;
  Bell bell;
  PoolTable pool;

  // Set by the peer in that slot once it has read our memory with process_vm_readv.
  std::atomic<std::uint8_t>* readable_by() {
    return reinterpret_cast<std::atomic<std::uint8_t>*>(this + 1);
  }
  // Set by us when the peer in that slot may read our memory no more. It looks after each read, so
  // that a read that saw what we wrote afterwards does not count.
  std::atomic<std::uint8_t>* given_up(int n_slots) { return readable_by() + n_slots; }
};

struct AreaLayout {
  int n_slots = 1;
  RingShape ring;
  std::size_t n_region_bytes = 0;
  int n_regions = 0;

  // Rings shrink where many ranks share a host, so that an area's rings stay within 2 MiB.
  static AreaLayout for_slots(int n_slots, std::size_t n_region_bytes, int n_regions);

  std::size_t rings_at() const;
  std::size_t ring_at(int slot) const { return rings_at() + slot * ring.n_bytes(); }
  std::size_t regions_at() const;
  std::size_t region_at(int index) const { return regions_at() + index * n_region_bytes; }
  std::size_t n_bytes() const { return region_at(n_regions); }
  // What is worth huge pages: rings and the world's region, unless the host is crowded.
  std::size_t n_huge_bytes() const;
};

// The wire's address: how a peer finds and checks an area.
struct AreaAddress {
  std::string host;  // host_identity()
  int pid = 0;
  int fd = -1;
  int wake_fd = -1;  // write end of the pipe that ends a sleep
  std::uint64_t nonce = 0;
  std::uint64_t base = 0;  // of the area in its owner
  int n_slots = 0;
  int slot = 0;
  std::uint32_t max_pay = 0;

  std::string text() const;
  static Result<AreaAddress> parse(std::string_view text);
};

}  // namespace rlx
