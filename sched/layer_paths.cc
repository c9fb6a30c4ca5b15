// SPDX-License-Identifier: MIT OR Apache-2.0
#include "sched/layer_paths.h"

#include "sched/exact.h"
#include "sched/relabel.h"

namespace rlx::sched {
namespace {

double peak_of(const Layer& layer, std::span<const int32_t> placement) {
  return LayerState(layer, placement).total_peak();
}

void add_scratch(const Layer& layer, double bound, double gap, std::span<const int32_t> from,
                 bool allow_empty, LayerPaths& paths) {
  LayerState state(layer, first_placement(layer));
  SearchOptions options;
  options.gap = gap;
  options.allow_empty = allow_empty;
  search(state, bound, options);
  paths.scratch = state.placement();
  if (!allow_empty) paths.optimal = exact_placement(layer, bound, paths.scratch);
  int fetches = 0;
  if (!from.empty()) {
    // Starting over moves most slabs: only for a gain that steps cannot reach.
    constexpr double kWorthStartingOver = 0.01;
    if (peak_of(layer, paths.scratch) > (1 - kWorthStartingOver) * paths.options.back().cost) {
      paths.scratch.clear();
      paths.optimal = false;
      return;
    }
    paths.scratch = relabel(from, paths.scratch, layer.cluster, false);
    fetches = count_fetches(from, paths.scratch, layer.cluster);
  }
  paths.options.push_back({fetches, peak_of(layer, paths.scratch)});
}

void add_steps(const Layer& layer, double bound, const SearchOptions& options, LayerPaths& paths) {
  LayerState state(layer, paths.start);
  const int fetches =
      options.old.empty() ? 0 : count_fetches(options.old, paths.start, layer.cluster);
  paths.options.push_back({fetches, state.total_peak()});
  paths.steps = search(state, bound, options);
  for (const Step& step : paths.steps) paths.options.push_back({step.fetches, step.peak});
}

std::vector<int32_t> legal(const Layer& layer, std::span<const int32_t> placement) {
  LayerState state(layer, placement);
  repair(state);
  return state.placement();
}

}  // namespace

LayerPaths find_paths(const Layer& layer, double bound, double gap, std::span<const int32_t> from,
                      bool allow_empty) {
  LayerPaths paths;
  if (!from.empty()) {
    paths.start = legal(layer, from);
    SearchOptions options;
    options.gap = gap;
    options.old = from;
    options.allow_empty = allow_empty;
    add_steps(layer, bound, options, paths);
    if (paths.options.back().cost <= bound * (1 + gap)) return paths;
  }
  add_scratch(layer, bound, gap, from, allow_empty, paths);
  return paths;
}

LayerPaths find_priced_paths(const Layer& layer, double bound, std::span<const int32_t> start,
                             const SearchOptions& options) {
  LayerPaths paths;
  LayerState state(layer, start);
  repair(state);
  // To fill a slot is free only where nothing is in place yet.
  if (options.old.empty() && !options.allow_empty) fill(state);
  paths.start = state.placement();
  add_steps(layer, bound, options, paths);
  return paths;
}

std::vector<int32_t> placement_at(const Layer& layer, const LayerPaths& paths, int option) {
  if (paths.start.empty() || option > static_cast<int>(paths.steps.size())) return paths.scratch;
  LayerState state(layer, paths.start);
  for (int i = 0; i < option; ++i) apply(state, paths.steps[i].move);
  return state.placement();
}

}  // namespace rlx::sched
