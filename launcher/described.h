// SPDX-License-Identifier: MIT OR Apache-2.0
// Machines that are not here but in files of lstopo, for a dry run.
#pragma once

#include <vector>

#include "launcher/allocation.h"
#include "launcher/command_line.h"
#include "launcher/environment.h"
#include "launcher/node_facts.h"

namespace rlx::launcher {

// Facts of the allocation's hosts by --topo-file; those of `own` for this machine if it has no
// file. kInvalid if a host has none, a file's host is not in the allocation, or this is no dry run.
// GPU variables are taken to be set as they are here.
Result<std::vector<NodeFacts>> described_facts(const CommandLine& line,
                                               const Allocation& allocation, const NodeFacts& own,
                                               Topologies& topologies);

}  // namespace rlx::launcher
