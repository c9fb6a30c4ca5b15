// SPDX-License-Identifier: MIT OR Apache-2.0
// The memory behind rlx_alloc: segments that peers map and read directly. Segments are added when
// room is missing and stay until the end, because unmapping costs more than any reuse.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "fabrics/shm_segment.h"
#include "fabrics/wire.h"

namespace rlx {

// In the owner's area: where peers find its segments. Entries below `count` never change.
struct PoolTable {
  static constexpr std::uint32_t kMax = 256;
  struct Entry {
    std::uint64_t address;  // in the owner
    std::uint64_t n_bytes;
    std::int32_t fd;  // of the owner
  };
  std::atomic<std::uint32_t> count;
  Entry entries[kMax];
};

class ShmPool {
 public:
  explicit ShmPool(PoolTable* table) : table_(table) {}

  Result<void*> alloc(std::uint64_t n_bytes);
  Status free(void* memory);
  bool contains(const void* data, std::uint64_t n_bytes) const;

 private:
  struct Part {
    std::shared_ptr<Segment> segment;
    std::map<std::uint64_t, std::uint64_t> free;   // offset -> bytes, never two that touch
    std::map<std::uint64_t, std::uint64_t> taken;  // offset -> bytes
  };
  static void* take(Part& part, std::uint64_t n_bytes);
  Result<Part*> grow(std::uint64_t n_bytes);

  PoolTable* table_;
  std::vector<Part> parts_;
  std::uint64_t n_total_ = 0;
};

// A peer's pool as this process sees it.
class PoolView {
 public:
  PoolView() = default;
  PoolView(const PoolTable* table, pid_t owner) : table_(table), owner_(owner) {}

  // nullptr: the range is not inside one segment, or it cannot be mapped.
  std::byte* pointer(RemoteSpan span);

 private:
  struct Mapped {
    std::uint64_t address;
    std::uint64_t n_bytes;
    std::shared_ptr<Segment> segment;
  };
  std::byte* find(RemoteSpan span) const;
  void map_new();

  const PoolTable* table_ = nullptr;
  pid_t owner_ = -1;
  std::uint32_t n_seen_ = 0;
  std::vector<Mapped> mapped_;
};

}  // namespace rlx
