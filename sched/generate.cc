// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: laws fitted to the expert counts of a DeepSeek-V3 service.  Tested by
// test/sched/test_generate.cc
#include "sched/generate.h"

#include <algorithm>
#include <numeric>

#include "sched/portable_math.h"

namespace rlx::sched {
namespace {

// Log loads of one layer, spikes included.
std::vector<double> draw_logs(const LoadLaw& law, Random& random) {
  const double sigma = law.sigma_low + (law.sigma_high - law.sigma_low) * random.uniform();
  std::vector<double> logs(law.experts);
  for (double& x : logs) x = sigma * random.normal();
  const int spikes = 1 + random.below(2);
  const double log_mean = sigma * sigma / 2;  // of a log-normal of median 1
  for (int i = 0; i < spikes; ++i) {
    const double height =
        law.spike_low + (law.spike_high - law.spike_low) * random.uniform() * random.uniform();
    logs[random.below(law.experts)] = log_mean + portable_log(height);
  }
  return logs;
}

// Cumulative sums, so that a uniform number finds its expert by bisection.
struct Wheel {
  explicit Wheel(std::span<const double> weight) : sum(weight.size()) {
    std::partial_sum(weight.begin(), weight.end(), sum.begin());
  }
  double total() const { return sum.back(); }
  int spin(Random& random) const {
    const double x = random.uniform() * total();
    return static_cast<int>(std::upper_bound(sum.begin(), sum.end() - 1, x) - sum.begin());
  }
  std::vector<double> sum;
};

// `count` different results, or all there are.
void spin_distinct(const Wheel& wheel, int count, Random& random, std::vector<int32_t>& out) {
  for (int misses = 0; static_cast<int>(out.size()) < count && misses < 1000;) {
    const int e = wheel.spin(random);
    if (std::find(out.begin(), out.end(), e) == out.end())
      out.push_back(e);
    else
      ++misses;
  }
  for (int e = 0; static_cast<int>(out.size()) < count; ++e)
    if (std::find(out.begin(), out.end(), e) == out.end()) out.push_back(e);
}

}  // namespace

Loads generate_loads(const LoadLaw& law) {
  Loads loads{1, law.layers, law.experts, {}};
  Random home(law.seed), away(law.seed ^ 0x5851f42d4c957f2d);
  const double keep = 1 - law.drift, change = std::sqrt(1 - keep * keep);
  for (int l = 0; l < law.layers; ++l) {
    const std::vector<double> a = draw_logs(law, home), b = draw_logs(law, away);
    std::vector<double> weight(law.experts);
    double sum = 0;
    for (int e = 0; e < law.experts; ++e)
      sum += weight[e] = portable_exp(keep * a[e] + change * b[e]);
    for (double w : weight) loads.values.push_back(std::floor(w / sum * law.tokens + 0.5));
  }
  return loads;
}

Loads sample_batches(const Loads& law, int batches, int64_t pairs_per_batch, uint64_t seed) {
  Loads out{batches, law.layers, law.experts, {}};
  out.values.resize(size_t(batches) * law.layers * law.experts);
  Random random(seed);
  double* row = out.values.data();
  for (int b = 0; b < batches; ++b)
    for (int l = 0; l < law.layers; ++l, row += law.experts) {
      const Wheel wheel(law.row(0, l));
      if (wheel.total() <= 0) continue;
      for (int64_t i = 0; i < pairs_per_batch; ++i) ++row[wheel.spin(random)];
    }
  return out;
}

TokenSample sample_tokens(std::span<const double> load, const RoutingLaw& law) {
  const int n = static_cast<int>(load.size());
  const int groups = n % law.groups ? 1 : law.groups, size = n / groups;
  const int top = std::min(law.top_groups, groups);
  const int k = std::min(law.k, top * size);
  TokenSample sample{law.tokens, k, {}};
  std::vector<double> group_load(groups), weight(n);
  for (int e = 0; e < n; ++e) {
    weight[e] = load[e] + 1e-9;  // a layer without load routes evenly
    group_load[e / size] += weight[e];
  }
  const Wheel group_wheel(group_load), whole(weight);
  std::vector<Wheel> inside;
  for (int g = 0; g < groups; ++g) inside.emplace_back(std::span(weight).subspan(g * size, size));
  Random random(law.seed);
  for (int i = 0; i < law.tokens; ++i) {
    std::vector<int32_t> chosen, experts, allowed;
    spin_distinct(group_wheel, top, random, chosen);
    std::vector<double> limited(chosen.size());
    for (size_t c = 0; c < chosen.size(); ++c) limited[c] = group_load[chosen[c]];
    const Wheel pick(limited);
    for (int misses = 0; static_cast<int>(experts.size()) < k && misses < 1000;) {
      const int g = chosen[pick.spin(random)], e = g * size + inside[g].spin(random);
      if (std::find(experts.begin(), experts.end(), e) == experts.end())
        experts.push_back(e);
      else
        ++misses;
    }
    for (int j = 0; static_cast<int>(experts.size()) < k; ++j) {  // very steep loads
      const int e = chosen[j / size] * size + j % size;
      if (std::find(experts.begin(), experts.end(), e) == experts.end()) experts.push_back(e);
    }
    sample.expert.insert(sample.expert.end(), experts.begin(), experts.end());
  }
  return sample;
}

}  // namespace rlx::sched
