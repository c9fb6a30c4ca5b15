// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of collective algorithms, and what each says about itself. To add one: write its file
// (coll/<collective>_<name>.cc), declare it in coll/algorithms.h, add its line in coll/registry.cc;
// test/coll/ then runs it for every number of ranks, count and root.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "coll/plan.h"
#include "coll/shape.h"

namespace rlx {

// What moving and adding bytes costs between the ranks of a communicator.
struct Model {
  std::string_view fabric = "tcp";  // "shm", "tcp": what rules call it
  // Messages: one of n bytes takes alpha_us + n * beta_us.
  double alpha_us = 5;
  double beta_us = 0.00014;
  // Shared memory: a line that a peer wrote is seen, a byte that a peer wrote is read.
  double line_us = 0.12;
  double read_us = 0.000015;
  // This process alone: a byte copied, a byte of input reduced.
  double copy_us = 0.00001;
  double gamma_us = 0.00001;
  double switch_us = 0;  // a wait for a rank that has to be given a core first
  int cores = 1;         // that this host's ranks may use; all ranks say the same
  // What the ranks of this host share, for Params::results.
  std::uint64_t cache_bytes = 32 << 20;
};

// Sizes that algorithms cut their work into, which must be the same on all ranks, and how they
// store.
struct Params {
  std::uint64_t message_bytes = 1 << 20;  // of pipelined messages
  std::uint64_t segment_bytes = 1 << 20;  // of staged plans, at most kStageBytes
  std::uint64_t chunk_bytes = 64 << 10;   // of claimed work
  // Stores to the caller's output where all ranks get the same: past the caches, without reading
  // first what is overwritten, where it would not stay in them (8 MiB and more of two ranks gain
  // 20 %; blocks that differ by rank gain nothing). What peers read next: see coll/shown.h.
  kernels::Stores results = kernels::Stores::cached;
};

struct Algorithm {
  Coll coll;
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Why it cannot carry out this call; nullptr if it can. The same answer on all ranks.
  const char* (*reject)(const Shape&);
  double (*cost_us)(const Shape&, const Model&);
  Plan (*plan)(const Shape&, const Params&);
};

std::span<const Algorithm* const> algorithms();
// nullptr if there is none of that name.
const Algorithm* find_algorithm(Coll coll, std::string_view name);
int index_of(const Algorithm* algorithm);  // in algorithms()

}  // namespace rlx
