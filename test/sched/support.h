// SPDX-License-Identifier: MIT OR Apache-2.0
// What the tests of sched/ share: short loads, random ones, the real files, and the invariants of
// every plan.
#pragma once

#include <string>

#include "sched/planner.h"
#include "sched/portable_math.h"

namespace rlx::sched::test {

Loads one_layer(std::vector<double> load);
// Windows of one layer.
Loads windows_of(std::vector<std::vector<double>> windows);
// Log-normal loads with zeros and ties among them.
Loads random_loads(Random& random, int windows, int layers, int experts);
// Any legal placement without duplicates: at random.
Placement random_placement(Random& random, const Loads& loads, const Cluster& cluster);

double peak_of(const Loads& loads, const Placement& placement, const Cluster& cluster,
               const TimeModel& model = {});

// The invariants of every plan; an empty string, or what is broken.
std::string broken(const Plan& plan, const Loads& loads, const Cluster& cluster,
                   const PlanOptions& options);

// $RLX_TEST_DATA/expert-load/NAME.txt (default ../shared/data); false if it is not there.
bool read_real(const std::string& name, Loads& loads);

}  // namespace rlx::sched::test
