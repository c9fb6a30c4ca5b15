// SPDX-License-Identifier: MIT OR Apache-2.0
// The entry to sched/: loads in, a placement of every layer out, with how good it is and could be.
#pragma once

#include <functional>

#include "sched/traffic.h"
#include "sched/types.h"

namespace rlx::sched {

enum class Policy {
  search,    // best balance; from an existing placement: best balance for the fetches allowed
  deepseek,  // EPLB's decisions
  rlx,       // rebalance_with_replicas of the RLX system
  nodes,     // near the best balance with as few copies of tokens between nodes as possible
};

struct PlanOptions {
  Policy policy = Policy::search;
  int groups = 1;  // groups of experts that tokens are routed to together
  TimeModel time;
  double gap = 3e-4;                // stop within this of the bound (nodes: 0.01 at least)
  bool allow_empty = false;         // may leave slots empty that do not help
  const Placement* from = nullptr;  // where the experts are now
  // Slots to fetch in all layers; -1: any; search and nodes only. Experts that no live rank of
  // `from` holds are fetched in any case, and first.
  int64_t max_fetches = -1;
  std::span<const uint8_t> dead;                       // by rank; their slots stay empty
  bool report_split = true;                            // fill in LayerReport::split_peak
  std::function<void(int done, int layers)> progress;  // told before and after every layer
  // policy nodes: how tokens choose experts; `tokens`, if given, is a sample for every layer.
  RoutingLaw routing;
  double rack_price = 1;  // a copy to another rack, in copies within the rack
  std::span<const TokenSample> tokens;
};

struct LayerReport {
  double mean = 0;        // time of the average rank; all times are summed over the windows
  double bound = 0;       // no placement has a smaller peak (none without duplicates)
  double before = 0;      // peak of `from`, if given and complete
  double peak = 0;        // of the plan, tokens split evenly over replicas
  double split_peak = 0;  // tokens split as split_tokens() does
  int duplicates = 0;     // slots whose expert is on the rank already
  int fetches = 0;        // slots whose expert was not on the rank before; 0 without `from`
  int lost = 0;           // experts that no live rank of `from` holds
  bool optimal = false;   // proven: no other placement is better
};

// What fewer fetches would buy: average over the layers of mean over peak.
struct CurvePoint {
  int64_t fetches;
  double balance;
};

struct Plan {
  Placement placement;
  std::vector<LayerReport> layers;
  std::vector<CurvePoint> curve;  // policies search and nodes with `from`

  double balance() const;        // average over the layers of mean / peak
  double split_balance() const;  // the same for split_peak
  double bound_balance() const;  // the same for bound: nothing is better
  int64_t fetches() const;
  int64_t lost() const;
};

// Errors: kInvalid for loads, placements or shapes that make no sense, kUnsupported for shapes the
// policy cannot place. Nothing else is decided then: the old placement stays.
Result<Plan> make_plan(const Loads& loads, const Cluster& cluster, const PlanOptions& options);

// Copies of a token between nodes under a placement: average over the layers, on fresh samples.
Result<Copies> expected_copies(const Loads& loads, const Placement& placement,
                               const Cluster& cluster, const RoutingLaw& routing);

}  // namespace rlx::sched
