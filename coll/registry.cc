// SPDX-License-Identifier: MIT OR Apache-2.0
#include <array>

#include "coll/algorithm.h"
#include "coll/algorithms.h"

namespace rlx {
namespace {

// Where costs are equal, the first one wins.
constexpr std::array kTable = {
    &kBarrierLines,        &kBarrierDissemination,
    &kBroadcastShared,     &kBroadcastBinomial,
    &kBroadcastChain,      &kReduceShared,
    &kReduceDirect,        &kReduceBinomial,
    &kAllReduceLines,      &kAllReduceSlots,
    &kAllReduceStaged,     &kAllReduceShared,
    &kAllReduceOneShot,    &kAllReduceRecursiveDoubling,
    &kAllReduceDirect,     &kAllReduceRing,
    &kAllGatherShared,     &kAllGatherDirect,
    &kAllGathervDirect,    &kReduceScatterShared,
    &kReduceScatterDirect, &kAllToAllShared,
    &kAllToAllPairwise,    &kAllToAllvPairwise,
    &kGatherShared,        &kGatherLinear,
    &kGathervLinear,       &kScatterShared,
    &kScatterLinear,       &kScattervLinear,
};

}  // namespace

std::span<const Algorithm* const> algorithms() { return kTable; }

const Algorithm* find_algorithm(Coll coll, std::string_view name) {
  for (const Algorithm* algorithm : kTable)
    if (algorithm->coll == coll && algorithm->name == name) return algorithm;
  return nullptr;
}

int index_of(const Algorithm* algorithm) {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (kTable[i] == algorithm) return static_cast<int>(i);
  return -1;
}

}  // namespace rlx
