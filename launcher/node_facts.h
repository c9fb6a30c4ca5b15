// SPDX-License-Identifier: MIT OR Apache-2.0
// What a node tells the head of a job before anything is mapped, and the hosts the planner makes of
// it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/topology.h"
#include "launcher/allocation.h"
#include "launcher/environment.h"
#include "launcher/gpus.h"
#include "launcher/map.h"

namespace rlx::launcher {

struct NodeFacts {
  std::string hostname;
  std::string signature;             // of its topology
  std::string xml;                   // the topology; "" where the reader has one of this signature
  CpuSet allowed;                    // to the daemon, by affinity mask and control group
  double quota = 0;                  // CPUs' worth of time, 0: no limit
  std::vector<std::string> visible;  // "CUDA_VISIBLE_DEVICES=0,1" and the like that are set there
  std::vector<GpuFact> gpus;         // what their driver says
};

// Of this node, without XML.
NodeFacts facts_of(const Topology& topology, const Environment& environment,
                   const std::string& hostname);

// Bytes that any rlxrun of this version decodes; what is decoded is within bounds.
std::string encode(const NodeFacts& facts);
Result<NodeFacts> decode_node_facts(std::string_view bytes);

// Each topology that was seen, once: nodes of a cluster are alike.
class Topologies {
 public:
  void add(const Topology& topology) { known_.emplace(topology.signature(), topology); }
  // The node's machine as it may use it. Its XML is loaded if the signature is new; kInvalid if it
  // is missing or another machine's.
  Result<Topology> of(const NodeFacts& facts);

 private:
  std::map<std::string, Topology> known_;
};

// What the planner maps onto: `facts` are those of the allocation's hosts, in their order.
Result<std::vector<Host>> hosts_of(const Allocation& allocation, std::span<const NodeFacts> facts,
                                   Topologies& topologies);

}  // namespace rlx::launcher
