// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/shm_area.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <sstream>

namespace rlx {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kVersion = 1;
constexpr std::size_t kRingBudget = std::size_t{2} << 20;
constexpr int kCrowdedSlots = 16;

std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

}  // namespace

AreaLayout AreaLayout::for_slots(int n_slots, std::size_t n_region_bytes, int n_regions) {
  AreaLayout layout{
      .n_slots = n_slots, .ring = {}, .n_region_bytes = n_region_bytes, .n_regions = n_regions};
  const std::size_t body = std::clamp<std::size_t>(std::bit_floor(kRingBudget / n_slots),
                                                   std::size_t{32} << 10, std::size_t{128} << 10);
  layout.ring.n_body_bytes = static_cast<std::uint32_t>(body);
  layout.ring.max_pay = static_cast<std::uint32_t>(body / 4);
  return layout;
}

std::size_t AreaLayout::rings_at() const {
  return round_up(sizeof(AreaHeader) + 2 * n_slots, kPage);
}

std::size_t AreaLayout::regions_at() const {
  return round_up(ring_at(n_slots), Segment::kHugeBytes);
}

std::size_t AreaLayout::n_huge_bytes() const {
  return n_slots <= kCrowdedSlots ? region_at(std::min(n_regions, 1)) : 0;
}

std::string AreaAddress::text() const {
  return fmt::format("{} {} {} {} {} {} {} {} {} {}", kVersion, host, pid, fd, wake_fd, nonce, base,
                     n_slots, slot, max_pay);
}

Result<AreaAddress> AreaAddress::parse(std::string_view text) {
  std::istringstream in{std::string(text)};
  int version = 0;
  AreaAddress a;
  if (!(in >> version) || version != kVersion)
    return fail(Code::kUnreachable,
                fmt::format("the peer's shared-memory address is of another version than {}: '{}'",
                            kVersion, text.substr(0, 40)));
  if (!(in >> a.host >> a.pid >> a.fd >> a.wake_fd >> a.nonce >> a.base >> a.n_slots >> a.slot >>
        a.max_pay))
    return fail(Code::kUnreachable,
                fmt::format("'{}' is no shared-memory address", text.substr(0, 80)));
  return a;
}

}  // namespace rlx
