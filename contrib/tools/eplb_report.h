// SPDX-License-Identifier: MIT OR Apache-2.0
// What rlx-eplb says about a plan, as a table and as a page.
#pragma once

#include <optional>
#include <string>

#include "sched/migration.h"
#include "sched/payback.h"
#include "sched/planner.h"

namespace rlx::eplb {

struct Report {
  std::string title;  // the loads' names
  std::string policy;
  const sched::Loads& loads;
  const sched::Cluster& cluster;
  sched::TimeModel time;
  sched::Placement before;  // --from, or the experts in order
  bool has_from;
  const sched::Plan& plan;
  double seconds;  // planning took
  std::optional<sched::Migration> migration;
  int64_t expert_bytes;
  std::string payback;  // one line
  double noise;         // of a step, average of the layers
  std::optional<sched::Copies> copies_before, copies;
};

// Experts dealt to slots in order, again from the first: how models are loaded without a plan.
sched::Placement in_order(int layers, int experts, int slots);
// Balance of every layer under a placement (0 if it lacks an expert), and the average.
std::vector<double> layer_balances(const Report& report, const sched::Placement& placement);
double balance_of(const Report& report, const sched::Placement& placement);

std::string table(const Report& report);
// One self-contained HTML page.
std::string page(const Report& report);

}  // namespace rlx::eplb
