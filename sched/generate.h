// SPDX-License-Identifier: MIT OR Apache-2.0
// Loads as real ones are, for tests and for users without data: log-normal experts with a few
// spikes, drift between workloads, batches drawn from them. The same bits everywhere for the same
// seed.
#pragma once

#include "sched/types.h"

namespace rlx::sched {

struct LoadLaw {
  int layers = 58, experts = 256;
  double tokens = 4e6;                         // token-expert pairs a layer
  double sigma_low = 0.55, sigma_high = 0.85;  // of log load; every layer draws its own
  double spike_low = 5, spike_high = 13;       // one or two experts a layer, times the mean
  double drift = 0;                            // 0: the workload of this seed; 1: an unrelated one
  uint64_t seed = 1;
};

// One window of expected counts, rounded. `drift` mixes the logarithms of two laws so that the rank
// correlation with drift 0 is about 1 - drift.
Loads generate_loads(const LoadLaw& law);

// `batches` windows of multinomial counts drawn from one window of `law`: the noise of real steps.
Loads sample_batches(const Loads& law, int batches, int64_t pairs_per_batch, uint64_t seed);

// Tokens of one layer with the experts each was routed to: expert[token * k + i].
struct TokenSample {
  int tokens = 0, k = 0;
  std::vector<int32_t> expert;
};

struct RoutingLaw {
  int k = 8;                       // experts a token
  int groups = 1, top_groups = 1;  // a token draws from `top_groups` of the groups only
  int tokens = 1024;
  uint64_t seed = 1;
};

// Draws tokens so that experts are chosen about as often as `load` says.
TokenSample sample_tokens(std::span<const double> load, const RoutingLaw& law);

}  // namespace rlx::sched
