// SPDX-License-Identifier: MIT OR Apache-2.0
// The root of a tree of PMIx servers, in the launcher's head: keeps the published names, turns
// meetings round, and tells all nodes of ranks and nodes that are gone. It hosts no ranks and needs
// no libpmix; a node in the same process has its own TreeExchange and is a child like any other.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pmix_glue/meetings.h"

namespace rlx::pmix {

class TreeRoot {
 public:
  // `carrier` outlives this. `place` has the root's children.
  TreeRoot(const TreePlace& place, Carrier& carrier);

  // Before any node is told to start it.
  void register_job(const Job& job);
  // Also happens by itself when all its ranks have ended. For jobs that were not started wholly.
  void deregister_job(const std::string& name);
  // All nodes below it must be named too, unless they come back by another way.
  void node_lost(uint32_t node);

  // As TreeExchange::deliver.
  Status deliver(uint32_t from, std::string_view bytes);

 private:
  struct JobRecord {
    std::vector<uint32_t> nodes;  // of the ranks
    std::vector<bool> ended;
    size_t n_ended = 0;
  };
  using Asker = std::pair<uint32_t, uint64_t>;  // node and its request's number

  void to_children(const Frame& frame);
  void answer(const Asker& asker, const Status& status, std::string data);
  void rank_ended(const Frame& frame);
  void mark_ended(const ProcId& rank);
  Status publish(uint32_t from, const Frame& frame);
  void lookup(uint32_t from, Frame frame);

  TreePlace place_;
  Carrier& carrier_;
  Meetings meetings_;
  Store store_;
  std::map<std::string, JobRecord, std::less<>> jobs_;
  std::set<ProcId> told_;              // ranks whose end everybody knows
  std::map<Asker, uint64_t> lookups_;  // tickets of the store
};

}  // namespace rlx::pmix
