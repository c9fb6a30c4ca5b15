// SPDX-License-Identifier: MIT OR Apache-2.0
// Plans in memory that all ranks of a host share: the loops that several algorithms use. What makes
// reuse of the memory safe is explained in coll/area.h.
#pragma once

#include <cstdint>
#include <functional>

#include "coll/algorithm.h"
#include "coll/area.h"
#include "coll/pattern.h"

namespace rlx {

inline Ref line_of(int rank) { return {Space::line, rank, 0}; }
inline Ref slot_of(int rank, std::uint64_t offset = 0) { return {Space::slot, rank, offset}; }
inline Ref stage_of(int rank, std::uint64_t segment, std::uint64_t offset = 0) {
  return {Space::stage, rank, segment % kStageHalves * kStageBytes + offset};
}
inline Ref result_of(int rank, std::uint64_t segment, std::uint64_t offset = 0) {
  return {Space::result, rank, segment % kStageHalves * kResultBytes + offset};
}

// nullptr if plans in shared memory can carry out the call.
const char* reject_unless_shared(const Shape& shape);

// A collective in which ranks put data where others take it, segment by segment.
struct Exchange {
  std::uint64_t n_segments = 1;
  std::function<void(std::uint64_t segment)> put;   // own data into own stage
  std::function<void(std::uint64_t segment)> take;  // from all stages
  std::function<void()> direct;  // instead, if the buffers of pooled_rank (-1: of all) are pooled
  int pooled_rank = -1;
};
void emit_exchange(PlanBuilder& b, const Shape& shape, const Exchange& exchange);

// all_reduce (and reduce: only the root takes the result) through staging buffers, every rank
// summing its part of each segment. Emits everything after `arrive` and await_arrivals, for which
// put_first() stages the first segment. Signals first_round + 1, ...
class StagedReduction {
 public:
  StagedReduction(PlanBuilder& b, const Shape& shape, const Params& params);
  void put_first() { put(0); }
  void emit(std::uint32_t first_round);

 private:
  void put(std::uint64_t k);
  void reduce(std::uint64_t k);
  void take(std::uint64_t k);
  Range segment(std::uint64_t k) const;
  Range part_of(std::uint64_t k, int rank) const;  // within the segment

  PlanBuilder& b_;
  const Shape& shape_;
  bool takes_;  // this rank gets the result
  std::uint64_t size_, piece_, n_segments_;
  Params params_;
};

// Emits: arrive, then `direct` if all buffers are pooled, else `staged`; it is told the round that
// is used up. put_first() runs before either where it must have.
void emit_by_pool(PlanBuilder& b, const Shape& shape, int pooled_rank,
                  const std::function<void()>& direct, const std::function<void()>& put_first,
                  const std::function<void(std::uint32_t round)>& staged);

}  // namespace rlx
