// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "coll/area.h"
#include "coll/pattern.h"

namespace rlx {
namespace {

bool matches(const Rule& rule, const Shape& shape, const Model& model) {
  const auto ranks = static_cast<std::uint64_t>(shape.n_ranks);
  const std::uint64_t bytes = payload_bytes(shape);
  return (rule.coll_mask >> static_cast<int>(shape.coll) & 1) != 0 &&
         (rule.fabric.empty() || rule.fabric == model.fabric) && ranks >= rule.min_ranks &&
         ranks <= rule.max_ranks && bytes >= rule.min_bytes && bytes <= rule.max_bytes &&
         (rule.dtype < 0 || rule.dtype == static_cast<int>(shape.dtype)) &&
         (rule.op < 0 || rule.op == static_cast<int>(shape.op)) &&
         (rule.mode < 0 || rule.mode == static_cast<int>(shape.mode));
}

}  // namespace

Selector::Selector(Model model, std::vector<Rule> rules)
    : model_(model), rules_(std::move(rules)) {}

Params Selector::params(const Shape& shape) const {
  Params params;
  // Segments must be worth a round of switches where ranks outnumber cores; else small ones keep
  // the data in the caches.
  const bool crowded = shape.n_ranks > model_.cores;
  params.segment_bytes = crowded ? kStageBytes : kStageBytes / 2;
  const auto n_ranks = static_cast<std::uint64_t>(shape.n_ranks);
  if (shape.one_host && 2 * payload_bytes(shape) * n_ranks >= model_.cache_bytes)
    params.results = kernels::Stores::streaming;
  return params;
}

// An exact sum takes about four times as long as a plain one where values spread.
double Selector::cost_us(const Algorithm& algorithm, const Shape& shape) const {
  Model model = model_;
  if (exact_sum(shape)) model.gamma_us *= 4;
  return algorithm.cost_us(shape, model);
}

Choice Selector::choose(const Shape& shape) {
  Choice choice{nullptr, params(shape), nullptr};
  for (const Rule& rule : rules_) {
    if (!matches(rule, shape, model_)) continue;
    if (rule.algorithm == "auto") {
      choice.rule = &rule;
      break;
    }
    const Algorithm* algorithm = find_algorithm(shape.coll, rule.algorithm);
    if (algorithm == nullptr || algorithm->reject(shape) != nullptr) {
      ++passed_over_;
      continue;
    }
    choice.algorithm = algorithm;
    choice.rule = &rule;
    return choice;
  }
  double least = std::numeric_limits<double>::infinity();
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->coll != shape.coll || algorithm->reject(shape) != nullptr) continue;
    const double cost = cost_us(*algorithm, shape);
    if (choice.algorithm != nullptr && cost >= least) continue;
    choice.algorithm = algorithm;
    least = cost;
  }
  return choice;
}

std::vector<Candidate> Selector::explain(const Shape& shape) const {
  std::vector<Candidate> candidates;
  for (const Algorithm* algorithm : algorithms()) {
    if (algorithm->coll != shape.coll) continue;
    const char* why = algorithm->reject(shape);
    candidates.push_back({algorithm, cost_us(*algorithm, shape),
                          why == nullptr ? std::string_view() : std::string_view(why)});
  }
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    if (a.reject.empty() != b.reject.empty()) return a.reject.empty();
    return a.cost_us < b.cost_us;
  });
  return candidates;
}

Model model_of(std::string_view fabric, int n_local, int cores) {
  Model model;
  model.cores = cores;
  if (fabric == "shm" || fabric == "self") {
    model.fabric = "shm";
    model.alpha_us = 0.35;
    model.beta_us = 0.00005;  // two copies
    model.gamma_us = 0.000006;
  } else {
    model.fabric = fabric.empty() ? std::string_view("tcp") : fabric;
  }
  if (n_local > cores) {
    // A rank that has no core gets one when the others yield theirs, and what each does takes as
    // much longer as it has less of one.
    model.switch_us = 2.5 * (n_local - cores + 1) / cores;
    const double crowding = static_cast<double>(n_local) / cores;
    for (double* each : {&model.beta_us, &model.read_us, &model.copy_us, &model.gamma_us})
      *each *= crowding;
  }
  return model;
}

}  // namespace rlx
