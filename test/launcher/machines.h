// SPDX-License-Identifier: MIT OR Apache-2.0
// Machines that are not here, for tests of mapping.
#pragma once

#include <string>

#include "base/topology.h"

namespace rlx::test {

// hwloc's XML of a machine in its synthetic words, such as "pack:2 numa:2 core:4 pu:2", whose
// packages each have so many GPUs on a PCI bus of their own. `id` is a GPU's class and numbers.
std::string machine_xml(const std::string& synthetic, int gpus_per_package = 0,
                        const std::string& id = "0302 [10de:2330]");
Topology machine(const std::string& synthetic, int gpus_per_package = 0,
                 const std::string& id = "0302 [10de:2330]");

}  // namespace rlx::test
