// SPDX-License-Identifier: MIT OR Apache-2.0
// The buffers of one reduction, as the kernels pass them on.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/copy.h"

namespace rlx::kernels {

struct Ways {
  std::span<void* const> dsts;
  std::span<const void* const> srcs;
  std::size_t count;
  Stores stores;
};

}  // namespace rlx::kernels
