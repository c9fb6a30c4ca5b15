// SPDX-License-Identifier: MIT OR Apache-2.0
// Copies of host memory, and the choice between ordinary and streaming (non-temporal) stores.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rlx::kernels {

// How a kernel writes its results. Streaming stores leave the caches alone; they pay where the
// destination's lines were last read by another core, because no read-for-ownership is needed.
// A kernel that was asked to stream ends with a store fence, so what it wrote is visible before
// anything the caller stores afterwards. Below about 4 KiB use cached.
enum class Stores : std::uint8_t { cached, streaming };

// dst[0, n_bytes) = src[0, n_bytes). The ranges are equal or do not overlap.
void copy(void* dst, const void* src, std::size_t n_bytes, Stores stores = Stores::cached);

// n_rows rows of row_bytes each; rows start src_stride (dst_stride) bytes apart.
void copy_rows(void* dst, std::size_t dst_stride, const void* src, std::size_t src_stride,
               std::size_t row_bytes, std::size_t n_rows);

}  // namespace rlx::kernels
