// SPDX-License-Identifier: MIT OR Apache-2.0
// Tested by test/sched/test_planner.cc
#include "sched/planner.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "sched/bound.h"
#include "sched/eplb.h"
#include "sched/layer_paths.h"
#include "sched/plan_cache.h"
#include "sched/relabel.h"
#include "sched/rlx_policy.h"
#include "sched/split.h"

namespace rlx::sched {
namespace {

Loads sum_windows(const Loads& loads) {
  Loads sum{1, loads.layers, loads.experts, {}};
  const size_t size = size_t(loads.layers) * loads.experts;
  sum.values.assign(loads.values.begin(), loads.values.begin() + size);
  for (size_t i = size; i < loads.values.size(); ++i) sum.values[i % size] += loads.values[i];
  return sum;
}

Result<Placement> rlx_placement(const Loads& loads, const Cluster& cluster) {
  Placement plan{loads.layers, cluster.slots(), {}};
  for (int l = 0; l < loads.layers; ++l) {
    RLX_TRY_ASSIGN(const ReplicaMap map,
                   rebalance_with_replicas(loads.row(0, l), cluster.ranks(), cluster.slots()));
    for (const auto& experts : map.local_slots)
      plan.expert.insert(plan.expert.end(), experts.begin(), experts.end());
  }
  return plan;
}

TokenSample draw_tokens(const Loads& loads, int l, RoutingLaw law) {
  std::vector<double> load(loads.experts);
  for (int t = 0; t < loads.windows; ++t)
    for (int e = 0; e < loads.experts; ++e) load[e] += loads.row(t, l)[e];
  law.seed += l;
  return sample_tokens(load, law);
}

// Planning on live ranks only.
class Planner {
 public:
  Planner(const Loads& loads, const Cluster& cluster, const PlanOptions& options,
          const Placement* from)
      : loads_(loads), cluster_(cluster), options_(options), from_(from) {
    for (int l = 0; l < loads.layers; ++l) {
      auto& windows = windows_.emplace_back();
      for (int t = 0; t < loads.windows; ++t) windows.push_back(loads.row(t, l));
    }
    for (int l = 0; l < loads.layers; ++l)
      bound_.push_back(lower_bound(windows_[l], cluster, options.time));
  }

  Result<Plan> run() {
    optimal_.assign(loads_.layers, 0);
    if (options_.policy == Policy::deepseek || options_.policy == Policy::rlx) {
      RLX_TRY(plan_by_rule());
    } else if (options_.policy == Policy::search) {
      plan_by_search();
    } else {
      plan_by_nodes();
    }
    for (int l = 0; l < loads_.layers; ++l) plan_.layers.push_back(report(l));
    return std::move(plan_);
  }

 private:
  Layer layer(int l) const { return {windows_[l], cluster_, options_.time}; }
  std::span<const int32_t> old(int l) const {
    return from_ ? from_->row(l) : std::span<const int32_t>();
  }

  void tell(int layers_done) const {
    if (options_.progress) options_.progress(layers_done, loads_.layers);
  }

  Status plan_by_rule() {
    const bool deepseek = options_.policy == Policy::deepseek;
    const Loads sum = sum_windows(loads_);
    RLX_TRY_ASSIGN(plan_.placement, deepseek ? deepseek_eplb(sum, cluster_, options_.groups)
                                             : rlx_placement(sum, cluster_));
    if (!from_) return {};
    const bool keep_nodes = deepseek && options_.groups % cluster_.nodes() == 0;
    for (int l = 0; l < loads_.layers; ++l) {
      const auto row = plan_.placement.row(l);
      const std::vector<int32_t> renamed = relabel(old(l), row, cluster_, keep_nodes);
      std::copy(renamed.begin(), renamed.end(), row.begin());
    }
    return {};
  }

  void plan_by_search() {
    std::vector<LayerPaths> paths;
    for (int l = 0; l < loads_.layers; ++l) {
      tell(l);
      paths.push_back(find_paths(layer(l), bound_[l], options_.gap, old(l), options_.allow_empty));
    }
    tell(loads_.layers);
    choose(paths);
  }

  void plan_by_nodes() {
    // Whole groups on a node keep tokens together; the search then evens out what that costs.
    Placement start;
    auto grouped = deepseek_eplb(sum_windows(loads_), cluster_, options_.groups);
    if (from_) {
      start = *from_;
    } else if (grouped) {
      start = std::move(*grouped);
    } else {
      start = first_placements();
    }
    const bool has_groups = options_.groups > 1 && options_.groups % cluster_.nodes() == 0;
    std::vector<LayerPaths> paths;
    for (int l = 0; l < loads_.layers; ++l) {
      tell(l);
      TokenSample drawn;
      if (options_.tokens.empty()) drawn = draw_tokens(loads_, l, options_.routing);
      const Traffic traffic(options_.tokens.empty() ? drawn : options_.tokens[l], cluster_,
                            loads_.experts, options_.rack_price);
      paths.push_back(node_paths(l, start.row(l), traffic));
      if (from_ || has_groups) continue;
      LayerState state(layer(l), placement_at(layer(l), paths[l], paths[l].steps.size()));
      save_traffic(state, traffic, std::max(state.total_peak(), bound_[l] * (1 + node_gap())));
      paths[l] = {state.placement(), {}, {}, {{0, state.total_peak()}}, false};
    }
    tell(loads_.layers);
    choose(paths);
  }

  Placement first_placements() const {
    Placement all{loads_.layers, cluster_.slots(), {}};
    for (int l = 0; l < loads_.layers; ++l) {
      const std::vector<int32_t> row = first_placement(layer(l));
      all.expert.insert(all.expert.end(), row.begin(), row.end());
    }
    return all;
  }

  // Further from the bound there is more freedom to keep tokens on their node.
  double node_gap() const { return std::max(options_.gap, 0.01); }

  LayerPaths node_paths(int l, std::span<const int32_t> start, const Traffic& traffic) const {
    constexpr double kCopyPrice = 40;  // fetches that a copy a token less is worth
    SearchOptions options;
    options.gap = node_gap();
    options.old = old(l);
    options.allow_empty = options_.allow_empty;
    options.price = [&](const LayerState& state, const Move& move) {
      return std::max(0.0, kCopyPrice * traffic.change(state, move));
    };
    return find_priced_paths(layer(l), bound_[l], start, options);
  }

  void choose(const std::vector<LayerPaths>& paths) {
    std::vector<std::vector<Option>> options;
    for (const LayerPaths& p : paths) options.push_back(p.options);
    plan_.placement = {loads_.layers, cluster_.slots(), {}};
    std::vector<int> choice(loads_.layers);
    for (const Pick& pick : spend(options, options_.max_fetches)) choice[pick.layer] = pick.option;
    for (int l = 0; l < loads_.layers; ++l) {
      std::vector<int32_t> row = placement_at(layer(l), paths[l], choice[l]);
      if (from_) keep_slots(old(l), row, cluster_);
      plan_.placement.expert.insert(plan_.placement.expert.end(), row.begin(), row.end());
      optimal_[l] =
          paths[l].optimal && options[l][choice[l]].cost <= options[l].back().cost * (1 + 1e-12);
    }
    if (from_) draw_curve(options);
  }

  void draw_curve(const std::vector<std::vector<Option>>& options) {
    std::vector<int> at(loads_.layers, -1);
    int64_t fetches = 0;
    double balance = 0;
    int seen = 0;
    for (const Pick& pick : spend(options, -1)) {
      const auto ratio = [&](int option) {
        const double peak = options[pick.layer][option].cost;
        return peak > 0 ? mean(pick.layer) / peak : 1;
      };
      int& now = at[pick.layer];
      fetches += options[pick.layer][pick.option].fetches;
      balance += ratio(pick.option);
      if (now >= 0) {
        fetches -= options[pick.layer][now].fetches;
        balance -= ratio(now);
      }
      seen += now < 0;
      now = pick.option;
      if (seen == loads_.layers) plan_.curve.push_back({fetches, balance / loads_.layers});
    }
  }

  // Time of a rank if every active expert had one replica and all ranks were equally busy.
  double mean(int l) const {
    double work = 0, speed = 0;
    for (const auto& load : windows_[l])
      for (double w : load) work += w > 0 ? w + options_.time.fixed_cost : 0;
    for (double s : cluster_.speed) speed += s;
    return work / speed;
  }

  LayerReport report(int l) const {
    LayerReport r;
    const auto row = plan_.placement.row(l);
    const LayerState state(layer(l), row);
    r.mean = mean(l);
    r.bound = bound_[l];
    r.peak = state.total_peak();
    for (const auto& load : windows_[l])
      if (options_.report_split)
        r.split_peak += split_tokens(load, row, cluster_, options_.time).peak;
    r.duplicates = count_duplicates(row, cluster_);
    r.optimal = optimal_[l] || r.peak <= r.bound * (1 + 1e-12);
    if (!from_) return r;
    r.fetches = count_fetches(old(l), row, cluster_);
    const LayerState was(layer(l), old(l));
    for (int e = 0; e < loads_.experts; ++e) r.lost += was.copies(e) == 0;
    if (r.lost == 0) r.before = was.total_peak();
    return r;
  }

  const Loads& loads_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  const Placement* from_;
  std::vector<std::vector<std::span<const double>>> windows_;  // by layer
  std::vector<double> bound_;
  std::vector<uint8_t> optimal_;
  Plan plan_;
};

Placement restrict(const Placement& whole, const std::vector<int>& slots) {
  Placement part{whole.layers, static_cast<int>(slots.size()), {}};
  for (int l = 0; l < whole.layers; ++l)
    for (int s : slots) part.expert.push_back(whole.row(l)[s]);
  return part;
}

Placement extend(const Placement& part, const std::vector<int>& slots, int n_slots) {
  Placement whole{part.layers, n_slots,
                  std::vector<int32_t>(size_t(part.layers) * n_slots, kEmpty)};
  for (int l = 0; l < part.layers; ++l)
    for (size_t i = 0; i < slots.size(); ++i) whole.row(l)[slots[i]] = part.row(l)[i];
  return whole;
}

Status check_options(const Loads& loads, const Cluster& cluster, const PlanOptions& options) {
  if (options.groups < 1 || loads.experts % options.groups)
    return fail(Code::kInvalid, fmt::format("{} experts do not divide into {} groups",
                                            loads.experts, options.groups));
  if (!options.dead.empty() && static_cast<int>(options.dead.size()) != cluster.ranks())
    return fail(Code::kInvalid, fmt::format("{} marks of dead ranks for {} ranks",
                                            options.dead.size(), cluster.ranks()));
  if (!(options.time.fixed_cost >= 0 && options.time.fixed_cost <= 0x1p63) || !(options.gap >= 0))
    return fail(Code::kInvalid, fmt::format("fixed cost {}, gap {}: want 0 or more",
                                            options.time.fixed_cost, options.gap));
  if (options.max_fetches < -1)
    return fail(
        Code::kInvalid,
        fmt::format("{} slots may be fetched: want 0 or more, or -1 for any", options.max_fetches));
  if (!options.from && options.max_fetches >= 0)
    return fail(Code::kInvalid,
                fmt::format("{} slots may be fetched, but there is no placement to start from: set "
                            "`from`, or -1 for any",
                            options.max_fetches));
  if (options.from && options.max_fetches >= 0 &&
      (options.policy == Policy::deepseek || options.policy == Policy::rlx))
    return fail(Code::kUnsupported,
                fmt::format("policies deepseek and rlx plan anew and keep to no budget ({} slots "
                            "given): want search or nodes",
                            options.max_fetches));
  for (double s : cluster.speed)
    if (!(s > 0 && s < 0x1p63))
      return fail(Code::kInvalid, fmt::format("a rank of speed {}: want more than 0 and less than "
                                              "2^63",
                                              s));
  if (options.policy == Policy::nodes && cluster.nodes() > 64)
    return fail(Code::kUnsupported,
                fmt::format("policy nodes knows up to 64 nodes, not {}", cluster.nodes()));
  if (!options.tokens.empty() && static_cast<int>(options.tokens.size()) != loads.layers)
    return fail(Code::kInvalid, fmt::format("tokens of {} layers given, want {}",
                                            options.tokens.size(), loads.layers));
  for (const TokenSample& sample : options.tokens)
    for (int32_t e : sample.expert)
      if (e < 0 || e >= loads.experts)
        return fail(Code::kInvalid, fmt::format("a sampled token names expert {}, want 0 to {}", e,
                                                loads.experts - 1));
  return {};
}

double average_ratio(const std::vector<LayerReport>& layers, double LayerReport::*peak) {
  double sum = 0;
  for (const LayerReport& l : layers) sum += l.*peak > 0 ? l.mean / (l.*peak) : 1;
  return sum / static_cast<double>(std::max<size_t>(1, layers.size()));
}

}  // namespace

double Plan::balance() const { return average_ratio(layers, &LayerReport::peak); }
double Plan::split_balance() const { return average_ratio(layers, &LayerReport::split_peak); }
double Plan::bound_balance() const { return average_ratio(layers, &LayerReport::bound); }
int64_t Plan::fetches() const {
  int64_t sum = 0;
  for (const LayerReport& l : layers) sum += l.fetches;
  return sum;
}
int64_t Plan::lost() const {
  int64_t sum = 0;
  for (const LayerReport& l : layers) sum += l.lost;
  return sum;
}

Result<Plan> make_plan(const Loads& loads, const Cluster& cluster, const PlanOptions& options) {
  RLX_TRY(check_loads(loads));
  RLX_TRY(check_options(loads, cluster, options));
  if (options.from) RLX_TRY(check_placement(*options.from, loads, cluster, false));
  std::vector<int> slots;
  RLX_TRY_ASSIGN(const Cluster live, without_dead(cluster, options.dead, slots));
  if (live.slots() < loads.experts)
    return fail(
        Code::kInvalid,
        fmt::format("{} experts on {} slots of {} live ranks: want a slot for each at least",
                    loads.experts, live.slots(), live.ranks()));
  Placement from;
  if (options.from) from = restrict(*options.from, slots);
  auto plan = Planner(loads, live, options, options.from ? &from : nullptr).run();
  if (plan) plan->placement = extend(plan->placement, slots, cluster.slots());
  return plan;
}

Result<Copies> expected_copies(const Loads& loads, const Placement& placement,
                               const Cluster& cluster, const RoutingLaw& routing) {
  RLX_TRY(check_loads(loads));
  RLX_TRY(check_placement(placement, loads, cluster));
  if (cluster.nodes() > 64)
    return fail(Code::kUnsupported,
                fmt::format("traffic is counted for up to 64 nodes, not {}", cluster.nodes()));
  Copies sum;
  for (int l = 0; l < loads.layers; ++l) {
    RoutingLaw fresh = routing;
    fresh.seed += 0x10001;
    const TokenSample sample = draw_tokens(loads, l, fresh);
    const std::span<const double> load = loads.row(0, l);
    const LayerState state({{&load, 1}, cluster, {}}, placement.row(l));
    const Copies copies = Traffic(sample, cluster, loads.experts, 1).copies(state);
    sum.nodes += copies.nodes / loads.layers;
    sum.racks += copies.racks / loads.layers;
  }
  return sum;
}

}  // namespace rlx::sched
