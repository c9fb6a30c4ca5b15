// SPDX-License-Identifier: MIT OR Apache-2.0
// What each rank of a communicator on one host shows its peers: lines, slots, signals and staging
// buffers. Every rank writes its own area (and the claim counters of rank 0's); all read all.
//
// Reuse. Calls are numbered 1, 2, ... on a communicator, and a rank runs one at a time, in order.
// In call n every rank waits for the line of every other in call n; a rank puts its line of call n
// after it has finished call n-1. So when a rank has finished n-1, all ranks have finished n-2, and
// whatever belongs to calls of n's parity (line, slot, claim counter) is free. After
// await_arrivals of call n all have finished n-1, and everything else is free. Staging buffers
// may be written before that only where all reads of call n-1 were behind its last await_all.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/faster_way.h"
#include "coll/shape.h"

namespace rlx {

inline constexpr std::size_t kLineBytes = 48;
inline constexpr std::size_t kSlotBytes = 32 << 10;
inline constexpr std::size_t kStageBytes = 1 << 20;
inline constexpr std::size_t kStageHalves = 2;
inline constexpr std::size_t kResultBytes = kStageBytes / 2;  // a rank's part of a stage, P >= 2

// A collective that another call is made of: a barrier of rlx_finalize is no rlx_barrier.
enum class Purpose : std::uint8_t { own, comm_dup, comm_split, finalize };

// A call as a message about a mismatch names it.
struct CallText {
  std::uint64_t number = 0;
  std::uint64_t count = 0;
  std::int32_t root = 0;
  std::uint8_t coll = 0, dtype = 0, op = 0, mode = 0;
  std::uint16_t algorithm = 0;  // index in kAlgorithms
  Purpose purpose = Purpose::own;
};

// One cache line, all that peers read in the good case. One writer; `stamp` is stored last. Spaced
// by two lines, for processors fetch the neighbour as well: what lies there would have to be won
// back from the peers before every stamp.
struct alignas(128) Line {
  std::atomic<std::uint64_t> stamp;  // number of the call
  std::uint64_t fingerprint;
  union {
    char payload[kLineBytes];
    struct {  // of a plan with a branch: where pooled buffers are in this rank's pool, else 0
      std::uint64_t in_address, out_address;
    };
  };
};
static_assert(offsetof(Line, payload) + kLineBytes == 64);

// The words for the line's call, read when fingerprints differ.
struct alignas(128) Words {
  CallText text;
};

struct alignas(128) Counter {
  std::atomic<std::uint64_t> value;
};

struct alignas(4096) Area {
  Line line[2];  // by parity of the call
  Words words[2];
  Counter reached;              // call number << 24 | round
  Counter claimed[2], done[2];  // rank 0's: chunks taken and finished, by parity
  Counter given_up;  // number of the call this rank has left with an error: its buffers are its own
  // What a byte took this rank either way in the last trial of a kind of call (coll/shown.h).
  std::atomic<double> spent[kCollCount][kSizeClasses][2];
  alignas(4096) char slot[2][kSlotBytes];
  alignas(4096) char stage[kStageHalves][kStageBytes];
  alignas(4096) char result[kStageHalves][kResultBytes];
};

}  // namespace rlx
