// SPDX-License-Identifier: MIT OR Apache-2.0
// What the servers of a tree say to each other. All kinds have one layout; a kind says which fields
// it uses, the others are empty and cost a few bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "pmix_glue/exchange.h"
#include "pmix_glue/node_set.h"

namespace rlx::pmix {

struct Frame {
  enum class Kind : uint8_t {
    kPart = 1,   // up one link: what a subtree gives to a meeting
    kDone,       // down one link: what the others gave
    kEnded,      // up: a rank has ended; down: it has, and who meets it should not wait
    kNodeLost,   // down: id is the node
    kJobOver,    // down: all ranks of proc.job have ended
    kEvent,      // up one link, then down all: data is the event, id the node it comes from
    kFetch,      // to the node of `proc`
    kProcesses,  // to a node: its ranks of proc.job
    kPublish,    // to the root; data is the publication
    kLookup,     // to the root; procs[0] asks for keys
    kCancel,     // to the root: the lookup with this id
    kUnpublish,  // to the root: what `proc` published under keys
    kReply,      // to who asked, with the same id; code and data
  };
  static constexpr Kind kLastKind = Kind::kReply;

  Kind kind = Kind::kPart;
  uint8_t what = 0;       // Meeting, or Ending::Kind
  bool last = true;       // nothing more comes on this link for this meeting
  Code code = Code::kOk;  // not kOk: data says why
  int32_t value = 0;
  uint64_t id = 0;  // of a request and its reply; of a meeting, its number
  ProcId proc;
  std::vector<ProcId> procs;
  NodeSet nodes;
  std::vector<std::string> keys;
  std::string data;
};

// Fields of a frame are at most this long together; longer data of a meeting goes in pieces.
inline constexpr size_t kMaxFrame = size_t{16} << 20;

std::string encode(const Frame& frame);
// kInvalid for anything that encode() does not make.
Result<Frame> decode(std::string_view bytes);

std::string encode(const std::vector<Publication>& items);
Result<std::vector<Publication>> decode_publications(std::string_view bytes);
std::string encode(const std::vector<Process>& table);
Result<std::vector<Process>> decode_processes(std::string_view bytes);

}  // namespace rlx::pmix
