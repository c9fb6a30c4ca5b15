// SPDX-License-Identifier: MIT OR Apache-2.0
// Element-wise reductions of host buffers.
//
// Which operation takes which type: op_applies() in base/dtype.h; calling with another pair is a
// defect of the caller. Integers wrap around. Logical operations give 0 or 1.
// f16 and bf16 are accumulated in f32 and rounded once, at the end of the call.
// min and max order -0 below +0, and a NaN in either input gives the canonical quiet NaN, so their
// results do not depend on the order of the inputs.
// avg is computed as sum: after the last reduction the caller divides once, with divide().
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/copy.h"

namespace rlx::kernels {

// dst[i] = a[i] op b[i] for i < count. dst may be a or b, or overlap neither.
void reduce2(Dtype dtype, Op op, void* dst, const void* a, const void* b, std::size_t count);

// Each dst[i] = srcs[0][i] op srcs[1][i] op ... in that order, held in registers: every input is
// read once and every output written once. An output may be one of the inputs, or overlap none.
// Requires at least one input.
void reduce_n(Dtype dtype, Op op, std::span<void* const> dsts, std::span<const void* const> srcs,
              std::size_t count, Stores stores = Stores::cached);

// data[i] = data[i] / divisor, rounded to nearest for floats, toward zero for integers.
void divide(Dtype dtype, void* data, std::size_t count, std::size_t divisor);

}  // namespace rlx::kernels
