// SPDX-License-Identifier: MIT OR Apache-2.0
// An operation under way. Pooled by its owner (the endpoint for messages, coll for collectives,
// whose running plan derives from it): made by a call, done when `done` says so, given back by
// release().
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace rlx {

struct Request;

class RequestOwner {
 public:
  // Takes back a request that is done; no use of it after that.
  virtual void release(Request* request) = 0;

 protected:
  ~RequestOwner() = default;
};

struct Request {
  enum class Kind : std::uint8_t { kSend, kRecv, kCollective };

  Kind kind = Kind::kSend;
  bool done = false;       // everything below is final when set
  bool cancelled = false;  // code is kCancelled then
  Code code = Code::kOk;
  int source = -1;            // receive: rank in the world that sent; send: rank that receives
  std::uint64_t tag = 0;      // receive: the message's whole 64-bit tag
  std::uint64_t n_bytes = 0;  // received (at most the room) or sent
  std::uint64_t n_whole = 0;  // with kTruncated: of the message
  std::string text;           // of the error, empty if none
  RequestOwner* owner = nullptr;

  Status status() const { return code == Code::kOk ? Status() : fail(code, text); }
  void release() { owner->release(this); }
  void finish() { done = true; }
  void finish(Code why, std::string what) {
    code = why;
    text = std::move(what);
    done = true;
  }
};

}  // namespace rlx
