// SPDX-License-Identifier: MIT OR Apache-2.0
// Every algorithm, defined in the file of its name (coll/all_reduce_ring.cc).
#pragma once

#include "coll/algorithm.h"

namespace rlx {

// Over messages.
extern const Algorithm kBarrierDissemination;
extern const Algorithm kBroadcastBinomial, kBroadcastChain;
extern const Algorithm kReduceBinomial, kReduceDirect;
extern const Algorithm kAllReduceOneShot, kAllReduceRecursiveDoubling, kAllReduceDirect,
    kAllReduceRing;
extern const Algorithm kAllGatherDirect, kAllGathervDirect;
extern const Algorithm kReduceScatterDirect;
extern const Algorithm kAllToAllPairwise, kAllToAllvPairwise;
extern const Algorithm kGatherLinear, kGathervLinear, kScatterLinear, kScattervLinear;

// In memory that all ranks share.
extern const Algorithm kBarrierLines;
extern const Algorithm kBroadcastShared, kReduceShared, kAllGatherShared, kReduceScatterShared,
    kAllToAllShared, kGatherShared, kScatterShared;
extern const Algorithm kAllReduceLines, kAllReduceSlots, kAllReduceStaged, kAllReduceShared;

}  // namespace rlx
