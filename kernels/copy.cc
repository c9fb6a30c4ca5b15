// SPDX-License-Identifier: MIT OR Apache-2.0
#include "kernels/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/copy.cc"
// After HWY_TARGET_INCLUDE.
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rlx::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void stream_bytes(unsigned char* dst, const unsigned char* src, std::size_t n_bytes) {
  const hn::ScalableTag<unsigned char> d;
  const std::size_t n = hn::Lanes(d);
  const std::size_t head = std::min((0 - reinterpret_cast<std::uintptr_t>(dst)) % n, n_bytes);
  std::memcpy(dst, src, head);
  std::size_t i = head;
  for (; i + 4 * n <= n_bytes; i += 4 * n) {
    const auto v0 = hn::LoadU(d, src + i), v1 = hn::LoadU(d, src + i + n);
    const auto v2 = hn::LoadU(d, src + i + 2 * n), v3 = hn::LoadU(d, src + i + 3 * n);
    hn::Stream(v0, d, dst + i);
    hn::Stream(v1, d, dst + i + n);
    hn::Stream(v2, d, dst + i + 2 * n);
    hn::Stream(v3, d, dst + i + 3 * n);
  }
  std::memcpy(dst + i, src + i, n_bytes - i);
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace rlx::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rlx::kernels {
namespace {

HWY_EXPORT(stream_bytes);

// Beyond the caches the processor's own string copy beats the C library's loop.
constexpr std::size_t kStringCopyFrom = std::size_t{16} << 20;

void copy_cached(void* dst, const void* src, std::size_t n_bytes) {
#if defined(__x86_64__)
  if (n_bytes >= kStringCopyFrom) {
    asm volatile("rep movsb" : "+D"(dst), "+S"(src), "+c"(n_bytes) : : "memory");
    return;
  }
#endif
  std::memcpy(dst, src, n_bytes);
}

}  // namespace

void copy(void* dst, const void* src, std::size_t n_bytes, Stores stores) {
  if (n_bytes == 0 || dst == src) return;
  if (stores == Stores::streaming) {
    HWY_DYNAMIC_DISPATCH(stream_bytes)
    (static_cast<unsigned char*>(dst), static_cast<const unsigned char*>(src), n_bytes);
  } else {
    copy_cached(dst, src, n_bytes);
  }
}

void copy_rows(void* dst, std::size_t dst_stride, const void* src, std::size_t src_stride,
               std::size_t row_bytes, std::size_t n_rows) {
  if (row_bytes == dst_stride && row_bytes == src_stride) return copy(dst, src, row_bytes * n_rows);
  for (std::size_t row = 0; row < n_rows; ++row)
    copy(static_cast<char*>(dst) + row * dst_stride,
         static_cast<const char*>(src) + row * src_stride, row_bytes);
}

}  // namespace rlx::kernels
#endif  // HWY_ONCE
