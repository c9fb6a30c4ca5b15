// SPDX-License-Identifier: MIT OR Apache-2.0
// What travels between the head of a job and its daemons: frames of
//
//   offset 0  u32  bytes behind this field
//          4  u8   kind
//          5  u32  node it comes from
//          9  u32  node it is for; kHeadNode, kAllNodes
//         13       body, see node_codec.h
//
// little-endian. A daemon passes frames that are not for it on, up or down, without looking inside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rlx::launcher {

inline constexpr std::uint32_t kHeadNode = 0xfffffffe;
inline constexpr std::uint32_t kAllNodes = 0xffffffff;
inline constexpr std::uint32_t kProtocol = 6;  // counts changes of any message

enum class Kind : std::uint8_t {
  // Between neighbours.
  kPing = 1,  // with a body: to be answered by one without
  kHello,     // to a new daemon: who it is
  kLeave,     // to all: nothing more will come
  // From a daemon about itself or those below it.
  kWelcome,    // what its node is like
  kLost,       // nodes that cannot be started, or are gone
  kSilent,     // a node that may be lost soon
  kToldToEnd,  // somebody there wants the job to end
  // Calls of Node.
  kStart,
  kSignal,
  kSignalRanks,
  kEnd,
  kEndRanks,
  kFinish,
  kOutputTaken,
  kInput,
  kInputEnded,
  kResize,
  kSpawnAnswer,
  kRelease,
  kReport,
  // Calls of NodeEvents.
  kStarted,
  kJoined,
  kHeld,
  kNotStarted,
  kOutput,
  kOutputEnded,
  kOutputLost,
  kExited,
  kAborted,
  kControlWanted,
  kSpawnWanted,
  kInputTaken,
  kReported,
  kQuiet,
  // Between the PMIx servers of any two nodes, or a node and the head.
  kExchange,
  kLast = kExchange
};

struct Frame {
  Kind kind = Kind::kPing;
  std::uint32_t from = kHeadNode, to = kHeadNode;
  std::string body;
};

// Shared, for one frame may go to many.
using FrameBytes = std::shared_ptr<const std::string>;
FrameBytes encode(const Frame& frame);

// Takes a stream apart. Holds no more than has arrived, and no frame of more than kMaxFrame bytes.
class FrameReader {
 public:
  static constexpr std::size_t kMaxFrame = 256 << 20;
  void take(std::string_view bytes);
  // The next whole frame; nothing when more must come first; kInvalid for good when the stream is
  // no sequence of frames.
  Result<std::optional<Frame>> next();

 private:
  std::string bytes_;
  std::size_t used_ = 0;
};

}  // namespace rlx::launcher
