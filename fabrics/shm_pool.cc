// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/shm_pool.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/log.h"

namespace rlx {
namespace {

constexpr std::uint64_t kAlign = 128;
constexpr std::uint64_t kFirstBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kLargestStep = std::uint64_t{256} << 20;
constexpr std::uint64_t kLargestRequest = std::uint64_t{1} << 47;

std::uint64_t round_up(std::uint64_t n, std::uint64_t to) { return (n + to - 1) / to * to; }

bool inside(std::uint64_t at, std::uint64_t n, std::uint64_t start, std::uint64_t room) {
  return at >= start && n <= room && at - start <= room - n;
}

}  // namespace

Result<void*> ShmPool::alloc(std::uint64_t n_bytes) {
  if (n_bytes > kLargestRequest)
    return fail(Code::kNoMemory, fmt::format("{} bytes are more than there can be", n_bytes));
  const std::uint64_t n = round_up(std::max<std::uint64_t>(n_bytes, 1), kAlign);
  for (Part& part : parts_)
    if (void* memory = take(part, n)) return memory;
  RLX_TRY_ASSIGN(Part * part, grow(n));
  return take(*part, n);
}

// First fit.
void* ShmPool::take(Part& part, std::uint64_t n_bytes) {
  for (auto hole = part.free.begin(); hole != part.free.end(); ++hole) {
    if (hole->second < n_bytes) continue;
    const auto [at, room] = *hole;
    part.free.erase(hole);
    if (room > n_bytes) part.free[at + n_bytes] = room - n_bytes;
    part.taken[at] = n_bytes;
    return part.segment->data() + at;
  }
  return nullptr;
}

Result<ShmPool::Part*> ShmPool::grow(std::uint64_t n_bytes) {
  const std::uint32_t count = table_->count.load(std::memory_order_relaxed);
  if (count == PoolTable::kMax)
    return fail(Code::kNoMemory, fmt::format("the pool has {} parts already", count));
  const std::uint64_t step = std::clamp(n_total_, kFirstBytes, kLargestStep);
  std::uint64_t size = round_up(std::max(n_bytes, step), Segment::kHugeBytes);
  auto segment = Segment::create(size, Segment::Pages::kHugeTaken);
  if (!segment && size > round_up(n_bytes, Segment::kHugeBytes)) {
    size = round_up(n_bytes, Segment::kHugeBytes);
    segment = Segment::create(size, Segment::Pages::kHugeTaken);
  }
  if (!segment) return tl::unexpected(std::move(segment.error()));
  PoolTable::Entry& entry = table_->entries[count];
  entry.address = reinterpret_cast<std::uint64_t>((*segment)->data());
  entry.n_bytes = size;
  entry.fd = (*segment)->fd();
  table_->count.store(count + 1, std::memory_order_release);
  n_total_ += size;
  parts_.push_back({std::move(*segment), {{0, size}}, {}});
  return &parts_.back();
}

Status ShmPool::free(void* memory) {
  const auto at = reinterpret_cast<std::uint64_t>(memory);
  for (Part& part : parts_) {
    const auto start = reinterpret_cast<std::uint64_t>(part.segment->data());
    if (!inside(at, 0, start, part.segment->n_bytes())) continue;
    const auto taken = part.taken.find(at - start);
    if (taken == part.taken.end()) break;
    std::uint64_t offset = taken->first;
    std::uint64_t n_bytes = taken->second;
    part.taken.erase(taken);
    const auto next = part.free.lower_bound(offset);
    if (next != part.free.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        n_bytes += before->second;
        part.free.erase(before);
      }
    }
    if (next != part.free.end() && offset + n_bytes == next->first) {
      n_bytes += next->second;
      part.free.erase(next);
    }
    part.free[offset] = n_bytes;
    return {};
  }
  return fail(Code::kInvalid, fmt::format("{} was not allocated here or is free already", memory));
}

bool ShmPool::contains(const void* data, std::uint64_t n_bytes) const {
  const auto at = reinterpret_cast<std::uint64_t>(data);
  return std::any_of(parts_.begin(), parts_.end(), [&](const Part& part) {
    return inside(at, n_bytes, reinterpret_cast<std::uint64_t>(part.segment->data()),
                  part.segment->n_bytes());
  });
}

std::byte* PoolView::find(RemoteSpan span) const {
  for (const Mapped& part : mapped_)
    if (inside(span.address, span.n_bytes, part.address, part.n_bytes))
      return part.segment->data() + (span.address - part.address);
  return nullptr;
}

std::byte* PoolView::pointer(RemoteSpan span) {
  if (std::byte* found = find(span)) return found;
  if (table_ == nullptr || table_->count.load(std::memory_order_acquire) == n_seen_) return nullptr;
  map_new();
  return find(span);
}

void PoolView::map_new() {
  const std::uint32_t count =
      std::min(table_->count.load(std::memory_order_acquire), PoolTable::kMax);
  for (; n_seen_ < count; ++n_seen_) {
    const PoolTable::Entry entry = table_->entries[n_seen_];
    auto segment = Segment::attach(owner_, entry.fd, entry.n_bytes, Segment::Pages::kHuge);
    if (segment)
      mapped_.push_back({entry.address, entry.n_bytes, std::move(*segment)});
    else
      log::debug("pool segment of process {}: {}", owner_, segment.error().text);
  }
}

}  // namespace rlx
