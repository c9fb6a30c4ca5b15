// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs all ranks of a small job in one thread without a network: every rank has its real engine,
// over messages and shared memory that are only simulated. Which rank moves next, and when a
// message arrives, is drawn from a seed, so one seed is one schedule and a failure can be repeated.
//
// Seen on the way: plans that stop short, messages nobody receives, buffers that are overwritten
// while they are sent (a message is read as late as it may be), memory that is read before it was
// written (everything starts as noise), calls that disturb the next ones.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "coll/collectives.h"

namespace rlx {

struct SimOptions {
  bool one_host = false;  // ranks share memory
  int cores = 64;         // fewer than ranks: plans for crowded hosts
  // Smaller than buffers: plans that go past the caches.
  std::uint64_t cache_bytes = 32 << 20;
  std::uint64_t seed = 1;
  std::string rules;  // text of a rules file: to force an algorithm
};

class Simulator {
 public:
  Simulator(int n_ranks, const SimOptions& options);
  ~Simulator();

  int n_ranks() const;
  Collectives& collectives(int rank);
  // Pooled memory: may be handed to calls that then find it in the pool of `rank`. Noise at first.
  std::byte* pool_alloc(int rank, std::uint64_t n_bytes);
  // The same, not pooled.
  std::byte* alloc(int rank, std::uint64_t n_bytes);
  void free_all();  // all memory from these two

  // Starts a call on a rank; it moves in run().
  void start(int rank, const Call& call);
  // A rank that never moves again, as if it had died.
  void kill(int rank);
  // Until every started call is done. Their errors, by rank and in call order, if any; kInternal if
  // nothing moves any more or messages are left over.
  Status run();
  std::vector<Status> take_results(int rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Faults that can be seen in a plan alone: references outside their space, steps of a graph that
// touch the same bytes in no order. Empty if there are none.
std::string check_plan(const Plan& plan, const Shape& shape);

}  // namespace rlx
