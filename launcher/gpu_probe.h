// SPDX-License-Identifier: MIT OR Apache-2.0
// What drivers of GPUs on this node say. Nothing is linked: NVIDIA's management library is opened
// where it is needed and there.
#pragma once

#include <string>
#include <vector>

#include "launcher/gpus.h"

namespace rlx::launcher {

// Whether a look at the PCI bus is worth its time. `root` stands for "/" in tests.
bool may_have_gpus(const std::string& root = "");
// From /proc/driver/nvidia; from the management library where GPUs are partitioned (MIG) or the
// files are missing, which may take as long as waking a GPU.
// `library` is its name, null for this program, in tests.
std::vector<GpuFact> read_gpu_facts(const std::string& root = "",
                                    const char* library = "libnvidia-ml.so.1");

}  // namespace rlx::launcher
