// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/sched/support.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "sched/bound.h"

namespace rlx::sched::test {

Loads one_layer(std::vector<double> load) {
  const int n = static_cast<int>(load.size());
  return {1, 1, n, std::move(load)};
}

Loads windows_of(std::vector<std::vector<double>> windows) {
  Loads loads{static_cast<int>(windows.size()), 1, static_cast<int>(windows[0].size()), {}};
  for (const auto& w : windows) loads.values.insert(loads.values.end(), w.begin(), w.end());
  return loads;
}

Loads random_loads(Random& random, int windows, int layers, int experts) {
  Loads loads{windows, layers, experts, {}};
  const double zeros = random.below(3) == 0 ? 0.3 : 0, ties = random.below(2);
  for (int i = 0; i < windows * layers * experts; ++i) {
    double w = 100 * portable_exp(random.normal());
    if (random.uniform() < zeros) w = 0;
    loads.values.push_back(ties ? std::floor(w / 50) * 50 : w);
  }
  return loads;
}

Placement random_placement(Random& random, const Loads& loads, const Cluster& cluster) {
  Placement p{loads.layers, cluster.slots(), {}};
  for (int l = 0; l < loads.layers; ++l) {
    std::vector<double> noise(loads.experts);
    for (double& x : noise) x = random.uniform();
    const std::span<const double> window = noise;
    const std::vector<int32_t> row = first_placement({{&window, 1}, cluster, {}});
    p.expert.insert(p.expert.end(), row.begin(), row.end());
  }
  return p;
}

double peak_of(const Loads& loads, const Placement& placement, const Cluster& cluster,
               const TimeModel& model) {
  double sum = 0;
  for (int l = 0; l < loads.layers; ++l)
    for (int t = 0; t < loads.windows; ++t)
      sum += balance_of(rank_times(loads.row(t, l), placement.row(l), cluster, model)).peak;
  return sum;
}

namespace {

std::string broken_layer(const Plan& plan, const Loads& loads, const Cluster& cluster,
                         const PlanOptions& options, int l) {
  const auto row = plan.placement.row(l);
  const LayerReport& report = plan.layers[l];
  const bool no_duplicates = options.policy == Policy::search || options.policy == Policy::nodes;
  if (report.duplicates != count_duplicates(row, cluster)) return "wrong count of duplicates";
  if (no_duplicates && report.duplicates) return "an expert twice on a rank";
  for (int s = 0; s < cluster.slots(); ++s)
    if (!options.dead.empty() && options.dead[cluster.rank_of[s]] && row[s] != kEmpty)
      return "an expert on a dead rank";
  double peak = 0;
  for (int t = 0; t < loads.windows; ++t) {
    const std::vector<double> times = rank_times(loads.row(t, l), row, cluster, options.time);
    peak += balance_of(times).peak;
    double total = 0, want = 0;
    for (int r = 0; r < cluster.ranks(); ++r) total += times[r] * cluster.speed[r];
    for (double w : loads.row(t, l)) want += w;
    if (options.time.fixed_cost == 0 && std::abs(total - want) > 1e-9 * want)
      return "load is not conserved";
  }
  if (std::abs(peak - report.peak) > 1e-9 * peak) return "the reported peak is wrong";
  if (report.peak < report.bound * (1 - 1e-9) && no_duplicates) return "below the lower bound";
  if (report.split_peak > report.peak * (1 + 1e-9)) return "splitting evenly is better";
  if (options.from && report.fetches != count_fetches(options.from->row(l), row, cluster))
    return "the reported fetches are wrong";
  return "";
}

}  // namespace

std::string broken(const Plan& plan, const Loads& loads, const Cluster& cluster,
                   const PlanOptions& options) {
  if (auto ok = check_placement(plan.placement, loads, cluster); !ok) return ok.error().text;
  for (int l = 0; l < loads.layers; ++l)
    if (const std::string what = broken_layer(plan, loads, cluster, options, l); !what.empty())
      return fmt::format("layer {}: {}", l, what);
  const auto again = make_plan(loads, cluster, options);
  if (!again || again->placement != plan.placement) return "a second plan is another one";
  return "";
}

bool read_real(const std::string& name, Loads& loads) {
  const char* root = std::getenv("RLX_TEST_DATA");
  const char* source = std::getenv("RLX_SRCDIR");
  const std::string folder = root     ? root
                             : source ? std::string(source) + "/../shared/data"
                                      : "../shared/data";
  std::ifstream in(folder + "/expert-load/" + name + ".txt");
  loads = {};
  if (!(in >> loads.layers >> loads.experts)) return false;
  loads.values.resize(size_t(loads.layers) * loads.experts);
  for (double& v : loads.values) in >> v;
  return static_cast<bool>(in);
}

}  // namespace rlx::sched::test
