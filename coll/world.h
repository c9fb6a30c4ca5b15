// SPDX-License-Identifier: MIT OR Apache-2.0
// The composition root: a bootstrap, the endpoint over its wires, the engine, and the world
// communicator with all others made from it.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/bootstrap.h"
#include "base/clock.h"
#include "base/result.h"
#include "coll/communicator.h"
#include "coll/engine.h"
#include "coll/links.h"
#include "coll/select.h"
#include "fabrics/endpoint.h"

namespace rlx {

class World {
 public:
  // The world that this process's environment names (pmix_glue/local.h).
  static Result<std::unique_ptr<World>> join();
  // Collective over the bootstrap's job.
  static Result<std::unique_ptr<World>> create(std::unique_ptr<Bootstrap> bootstrap);
  // Collective: everything sent has been received, then the bootstrap is left in good order.
  // Pending requests are lost.
  Status finalize();
  [[noreturn]] void abort(int exit_code, std::string_view why);

  Communicator& world() { return *communicators_.front(); }
  Endpoint& endpoint() { return *endpoint_; }
  Engine& engine() { return *engine_; }
  const BootstrapFacts& facts() const { return bootstrap_->facts(); }
  // Ranks of the world on this host, ascending, with ours.
  const std::vector<int>& local_ranks() const { return local_ranks_; }
  // The deadline of a blocking call that starts now.
  static Deadline deadline();

  // Collective over `parent`. Ranks of equal colour (0 or more) form a communicator ordered by key,
  // then by rank; nullptr for colour -1. `purpose` is what all ranks must call it.
  Result<Communicator*> split(Communicator& parent, int colour, int key, std::string name,
                              Purpose purpose);
  // kInvalid for the world and while operations are pending.
  Status free(Communicator* communicator);
  // nullptr if it is none of ours.
  Communicator* find(const Communicator* communicator) const {
    for (const auto& c : communicators_)
      if (c.get() == communicator) return c.get();
    return nullptr;
  }
  // Whose messages carry `context`; nullptr after it was freed.
  Communicator* of_context(std::uint32_t context) const;

 private:
  World() = default;
  // What the members of a new communicator know that decides how they carry out its calls.
  struct Terms {
    std::int32_t areas;        // 1: the members' areas for its channel are mapped
    std::int32_t shm;          // 1: shared memory reaches all members
    std::int32_t cores;        // that this host's ranks may use (each may be bound to one)
    std::int32_t minus_local;  // minus the number of ranks on this host
  };
  Status agree(const Group& group, Terms& terms);
  // Gives `group` (whose context is set) its communicator; collective over the group. `channel` -1:
  // no shared memory.
  Result<Communicator*> add(Group group, int channel);
  bool reaches_all_by_shm(const Group& group);
  void find_local_ranks();

  std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<Endpoint> endpoint_;
  std::unique_ptr<Links> links_;
  std::unique_ptr<Engine> engine_;
  std::vector<Rule> rules_;
  std::vector<int> local_ranks_;
  std::vector<std::unique_ptr<Communicator>> communicators_;  // the world first
  // What the members of a new communicator agree on: numbers no member uses.
  std::uint32_t next_context_ = 1;
  std::uint64_t free_channels_ = ~std::uint64_t{0};  // one bit a channel of the shared-memory wire
};

}  // namespace rlx
