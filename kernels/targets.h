// SPDX-License-Identifier: MIT OR Apache-2.0
// What every file that is compiled once per instruction set includes first.
#pragma once

// x86 without AVX2 runs the portable build: two targets less to compile and test.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
