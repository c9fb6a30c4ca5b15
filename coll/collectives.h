// SPDX-License-Identifier: MIT OR Apache-2.0
// The collectives of one communicator: from a call to a plan (chosen once, kept by shape) to the
// engine. A communicator owns one of these and checks arguments before it calls in here.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "coll/engine.h"
#include "coll/select.h"
#include "coll/shape.h"

namespace rlx {

// A call as the user made it; fields as in include/rlx/rlx.h.
struct Call {
  Coll coll = Coll::barrier;
  Dtype dtype = Dtype::u8;
  Op op = Op::sum;
  Mode mode = Mode::fast;
  Purpose purpose = Purpose::own;
  int root = 0;
  std::uint64_t count = 0;
  const void* in = nullptr;
  void* out = nullptr;          // broadcast: in == out == data
  Blocks send = {}, recv = {};  // v forms, see coll/shape.h; read before start() returns
};

class Collectives {
 public:
  Collectives(Engine& engine, Group group, Selector selector);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  // Blocking.
  Status run(const Call& call, Deadline deadline);
  // Non-blocking: the request is done later (or already); engine.wait() or test `done`, release().
  Request* start(const Call& call);

  // What this communicator would do with a call, for rlx-info; the call's buffers may be nullptr.
  Shape shape_of(const Call& call) const;
  // The input lies where the result goes, as rlx.h allows.
  bool works_in_place(const Call& call) const;
  Selector& selector();
  const Group& group() const;
  // Started and not finished: such a communicator must not be freed.
  int n_pending() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
