// SPDX-License-Identifier: MIT OR Apache-2.0
// What a control group leaves of the machine. Containers limit CPU time this way without hiding
// cores.
#pragma once

#include <string>

namespace rlx {

// CPUs' worth of time this process may use, by cpu.max (version 2) or cpu.cfs_quota_us (version 1)
// of its group and all groups above; 0 when nothing limits it. `root` stands for "/" in tests.
double cgroup_cpu_quota(const std::string& root = "");

}  // namespace rlx
