// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank of a small job needs to run collectives, without a world: an endpoint over the wires
// asked for, an engine, communicators over all ranks.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bootstrap.h"
#include "coll/collectives.h"
#include "coll/engine.h"
#include "coll/links.h"
#include "fabrics/endpoint.h"

namespace rlx::test {

class Station {
 public:
  // `fabrics`: as RLX_FABRICS ("": all).
  Station(Bootstrap& bootstrap, std::string_view fabrics);
  ~Station();

  int rank() const { return endpoint_->rank(); }
  int size() const { return endpoint_->size(); }
  Endpoint& endpoint() { return *endpoint_; }
  Engine& engine() { return *engine_; }
  bool shares_memory() const;
  // A communicator of all ranks, all of which make it in the same order. Lives as long as the job.
  Collectives& communicator(const std::string& rules = "", int cores = 64);
  // All of `ranks` (default: of the job) have come here and everything sent has been received.
  void meet(std::vector<int> ranks = {});

 private:
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Collectives>> communicators_;
};

}  // namespace rlx::test
