// SPDX-License-Identifier: MIT OR Apache-2.0
// What every file that is compiled once per instruction set includes first.
#pragma once

// x86 without AVX2 runs the portable build: two targets less to compile and test. Vectors of a
// size that is known only at run time cannot be members or array elements. AVX3_DL, which
// -march=native makes the only target on newer machines, gives nothing here, and Highway 1.0.3
// narrows 256-bit vectors wrongly there: TruncateTo() of eight 32-bit lanes gives zeros.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
