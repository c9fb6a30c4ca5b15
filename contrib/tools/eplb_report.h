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
  sched::Placement before;  // --from or the experts in order, on ranks that live
  bool has_from;
  const sched::Plan& plan;
  double seconds;  // planning took
  std::optional<sched::Migration> migration;
  int64_t expert_bytes;
  std::string payback;            // one line
  int64_t budget;                 // slots; -1: any number
  std::span<const uint8_t> dead;  // by rank; empty: all live
  int64_t steps;                  // that the counts cover
  double noise;                   // of a step, average of the layers
  std::optional<sched::Copies> copies_before, copies;
};

// Experts dealt to slots in order, again from the first: how models are loaded without a plan.
sched::Placement in_order(int layers, int experts, const sched::Cluster& cluster,
                          std::span<const uint8_t> dead);
// The slots of dead ranks emptied.
void drop_dead(sched::Placement& placement, const sched::Cluster& cluster,
               std::span<const uint8_t> dead);
// Balance of every layer under a placement, and the average: of the tokens that it serves, over the
// ranks that live.
std::vector<double> layer_balances(const Report& report, const sched::Placement& placement);
double balance_of(const Report& report, const sched::Placement& placement);

// What became of a budget of fetches.
std::string budget_words(const sched::Plan& plan);

std::string table(const Report& report);
// One self-contained HTML page.
std::string page(const Report& report);

}  // namespace rlx::eplb
