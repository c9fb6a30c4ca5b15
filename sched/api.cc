// SPDX-License-Identifier: MIT OR Apache-2.0
// include/rlx/eplb.h over sched/. Nothing is thrown across; outputs are written on success only.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>

#include "rlx/eplb.h"
#include "sched/migration.h"
#include "sched/payback.h"
#include "sched/planner.h"
#include "sched/split.h"

namespace rlx::sched {
namespace {

rlx_error tell(rlx_eplb_error* error, Code code, const std::string& text) {
  if (error) {
    error->code = static_cast<rlx_error>(code);
    const size_t n = std::min(text.size(), sizeof(error->text) - 1);
    std::memcpy(error->text, text.data(), n);
    error->text[n] = 0;
  }
  return static_cast<rlx_error>(code);
}

// Runs `body`, a Status, and turns what goes wrong into a code.
template <class Body>
rlx_error guarded(rlx_eplb_error* error, Body body) {
  try {
    const Status status = body();
    return status ? RLX_SUCCESS : tell(error, status.error().code, status.error().text);
  } catch (const std::exception& e) {  // bad_alloc or length_error: nothing else is thrown
    return tell(error, Code::kNoMemory, fmt::format("no memory for the plan: {}", e.what()));
  }
}

Status need(bool given, const char* what) {
  if (given) return {};
  return fail(Code::kInvalid, fmt::format("{} is NULL", what));
}

Result<Cluster> cluster_of(const rlx_eplb_shape* shape, const double* speed = nullptr) {
  RLX_TRY(need(shape, "shape"));
  constexpr int64_t kMost = int64_t{1} << 31;
  if (shape->windows < 1 || shape->layers < 1 || shape->experts < 1 ||
      int64_t{shape->windows} * shape->layers * shape->experts >= kMost ||
      int64_t{shape->layers} * shape->slots >= kMost)
    return fail(
        Code::kInvalid,
        fmt::format("{} windows, {} layers, {} experts, {} slots: want 1 or more of each and "
                    "less than 2^31 loads and slots in all",
                    shape->windows, shape->layers, shape->experts, shape->slots));
  auto cluster = make_cluster(shape->ranks, shape->slots, shape->nodes, shape->racks);
  if (cluster && speed) cluster->speed.assign(speed, speed + shape->ranks);
  return cluster;
}

Placement placement_of(const rlx_eplb_shape& s, const int32_t* ids) {
  return {s.layers, s.slots, {ids, ids + size_t(s.layers) * s.slots}};
}

template <class T>
Loads loads_of(const rlx_eplb_shape& s, const T* values) {
  return {
      s.windows, s.layers, s.experts, {values, values + size_t(s.windows) * s.layers * s.experts}};
}

Result<rlx_eplb_options> options_of(const rlx_eplb_options* options) {
  if (!options) return rlx_eplb_options(RLX_EPLB_OPTIONS);
  if (options->size != sizeof(rlx_eplb_options))
    return fail(Code::kInvalid,
                fmt::format("options.size is {}, want {}: start from RLX_EPLB_OPTIONS",
                            options->size, sizeof(rlx_eplb_options)));
  if (options->policy < RLX_EPLB_SEARCH || options->policy > RLX_EPLB_NODES)
    return fail(Code::kInvalid, fmt::format("options.policy is {}, want 0 to 3", options->policy));
  if (options->top_k < 1 || options->top_groups < 1 || options->n_tokens < 0)
    return fail(Code::kInvalid,
                fmt::format("options: top_k {}, top_groups {}, n_tokens {}: want 1, 1, 0 or more",
                            options->top_k, options->top_groups, options->n_tokens));
  if (!(options->rack_price >= 0 && std::isfinite(options->rack_price)))
    return fail(Code::kInvalid,
                fmt::format("options.rack_price is {}, want 0 or more", options->rack_price));
  return *options;
}

std::vector<TokenSample> samples_of(const rlx_eplb_options& o, int layers) {
  std::vector<TokenSample> samples;
  const size_t size = size_t(o.n_tokens) * o.top_k;
  for (int l = 0; l < layers && o.tokens && o.n_tokens > 0; ++l)
    samples.push_back({o.n_tokens, o.top_k, {o.tokens + l * size, o.tokens + (l + 1) * size}});
  return samples;
}

rlx_eplb_layer report_of(const LayerReport& r) {
  return {r.mean,       r.bound,   r.before,          r.peak, r.split_peak,
          r.duplicates, r.fetches, r.optimal ? 1 : 0, r.lost};
}

template <class T>
Status plan(const rlx_eplb_shape* shape, const T* values, const rlx_eplb_options* given,
            int32_t* placement, rlx_eplb_layer* layers) {
  RLX_TRY_ASSIGN(const rlx_eplb_options o, options_of(given));
  RLX_TRY_ASSIGN(const Cluster cluster, cluster_of(shape, o.speed));
  RLX_TRY(need(values, "the array of loads"));
  RLX_TRY(need(placement, "placement"));
  PlanOptions options;
  options.policy = static_cast<Policy>(o.policy);
  options.groups = o.groups;
  options.time.fixed_cost = o.fixed_cost;
  options.gap = o.gap;
  options.allow_empty = o.allow_empty != 0;
  options.max_fetches = o.max_fetches;
  options.report_split = layers != nullptr;
  options.routing.k = std::min(o.top_k, shape->experts);
  options.routing.groups = std::max(1, o.groups);
  options.routing.top_groups = o.top_groups;
  options.rack_price = o.rack_price;
  if (o.dead) options.dead = {o.dead, static_cast<size_t>(shape->ranks)};
  const std::vector<TokenSample> samples = samples_of(o, shape->layers);
  options.tokens = samples;
  Placement from;
  if (o.from) {
    from = placement_of(*shape, o.from);
    options.from = &from;
  }
  RLX_TRY_ASSIGN(const Plan plan, make_plan(loads_of(*shape, values), cluster, options));
  std::copy(plan.placement.expert.begin(), plan.placement.expert.end(), placement);
  if (layers) std::transform(plan.layers.begin(), plan.layers.end(), layers, report_of);
  return {};
}

Status maps(const rlx_eplb_shape* shape, const int32_t* placement, int32_t max_copies,
            int32_t* copies, int32_t* slots_of) {
  RLX_TRY_ASSIGN(const Cluster cluster, cluster_of(shape));
  RLX_TRY(need(placement && copies && slots_of, "an array"));
  if (max_copies < 0)
    return fail(Code::kInvalid, fmt::format("max_copies is {}, want 0 or more", max_copies));
  const Placement p = placement_of(*shape, placement);
  const Loads none{1, shape->layers, shape->experts, {}};
  RLX_TRY(check_placement(p, none, cluster, false));
  const size_t n = size_t(shape->layers) * shape->experts;
  std::vector<int32_t> count(n), slots(n * max_copies, -1);
  for (int l = 0; l < shape->layers; ++l)
    for (int s = 0; s < shape->slots; ++s) {
      const int32_t e = p.row(l)[s];
      if (e == kEmpty) continue;
      const size_t i = size_t(l) * shape->experts + e;
      if (count[i] == max_copies)
        return fail(Code::kTruncated,
                    fmt::format("expert {} in layer {} has more than {} copies", e, l, max_copies));
      slots[i * max_copies + count[i]++] = s;
    }
  std::copy(count.begin(), count.end(), copies);
  std::copy(slots.begin(), slots.end(), slots_of);
  return {};
}

// One layer: counts and where its experts are. Every expert with tokens has to be somewhere.
Status check_batch(const rlx_eplb_shape& shape, const Cluster& cluster, const Loads& loads,
                   const Placement& p) {
  RLX_TRY(check_loads(loads));
  RLX_TRY(check_placement(p, loads, cluster, false));
  for (int l = 0; l < shape.layers; ++l)
    for (int e = 0; e < shape.experts; ++e)
      if (loads.row(0, l)[e] > 0 && std::count(p.row(l).begin(), p.row(l).end(), e) == 0)
        return fail(Code::kInvalid,
                    fmt::format("expert {} in layer {} has tokens and no slot", e, l));
  return {};
}

Status split(const rlx_eplb_shape* shape, const int64_t* counts, const int32_t* placement,
             const rlx_eplb_options* given, int64_t* tokens) {
  RLX_TRY_ASSIGN(const rlx_eplb_options o, options_of(given));
  RLX_TRY_ASSIGN(const Cluster cluster, cluster_of(shape, o.speed));
  RLX_TRY(need(counts && placement && tokens, "an array"));
  rlx_eplb_shape one = *shape;
  one.windows = one.layers = 1;
  RLX_TRY(check_batch(one, cluster, loads_of(one, counts), placement_of(one, placement)));
  for (double speed : cluster.speed)
    if (!(speed > 0 && speed < 0x1p63))
      return fail(Code::kInvalid, fmt::format("a rank of speed {}: want more than 0", speed));
  if (!(o.fixed_cost >= 0 && o.fixed_cost < 0x1p63))
    return fail(Code::kInvalid, fmt::format("fixed cost {}: want 0 or more", o.fixed_cost));
  const std::vector<int64_t> result =
      split_counts({counts, static_cast<size_t>(shape->experts)},
                   {placement, static_cast<size_t>(shape->slots)}, cluster, {o.fixed_cost});
  std::copy(result.begin(), result.end(), tokens);
  return {};
}

struct MigrateOut {
  rlx_eplb_transfer* transfers;
  int64_t capacity;
  int64_t *n, *sent, *received, *link;
};

Status migrate(const rlx_eplb_shape* shape, const int32_t* before, const int32_t* after,
               int64_t expert_bytes, const uint8_t* dead, const MigrateOut& out) {
  RLX_TRY_ASSIGN(const Cluster cluster, cluster_of(shape));
  RLX_TRY(need(before && after && out.n && (out.transfers || out.capacity <= 0), "an array"));
  std::span<const uint8_t> gone;
  if (dead) gone = {dead, static_cast<size_t>(shape->ranks)};
  RLX_TRY_ASSIGN(const Migration plan,
                 plan_migration(placement_of(*shape, before), placement_of(*shape, after),
                                shape->experts, cluster, expert_bytes, gone));
  *out.n = static_cast<int64_t>(plan.transfers.size());
  if (*out.n > out.capacity)
    return fail(Code::kTruncated, fmt::format("{} transfers, room for {}", *out.n, out.capacity));
  std::transform(plan.transfers.begin(), plan.transfers.end(), out.transfers,
                 [](const Transfer& t) {
                   return rlx_eplb_transfer{t.layer,     t.expert,  t.from,  t.to,
                                            t.from_slot, t.to_slot, t.round, t.forwarded ? 1 : 0};
                 });
  if (out.sent) std::copy(plan.sent.begin(), plan.sent.end(), out.sent);
  if (out.received) std::copy(plan.received.begin(), plan.received.end(), out.received);
  if (out.link) std::copy(plan.link.begin(), plan.link.end(), out.link);
  return {};
}

Status noise(const rlx_eplb_shape* shape, const int64_t* counts, const int32_t* placement,
             double* out) {
  RLX_TRY_ASSIGN(const Cluster cluster, cluster_of(shape));
  RLX_TRY(need(counts && placement && out, "an array"));
  const Loads loads = loads_of(*shape, counts);
  const Placement p = placement_of(*shape, placement);
  RLX_TRY(check_batch(*shape, cluster, loads, p));
  for (int l = 0; l < shape->layers; ++l)
    out[l] = sampling_noise(loads.row(0, l), p.row(l), cluster);
  return {};
}

Status generate(const rlx_eplb_shape* shape, uint64_t seed, double drift, int64_t tokens,
                int64_t* counts) {
  RLX_TRY(need(shape && counts, "an array"));
  if (shape->layers < 1 || shape->experts < 1 || !(drift >= 0 && drift <= 1) || tokens < 0 ||
      tokens > int64_t{1} << 53)
    return fail(
        Code::kInvalid,
        fmt::format("{} layers, {} experts, drift {}, {} tokens: want 1 or more, 1 or more, "
                    "0 to 1, 0 to 2^53",
                    shape->layers, shape->experts, drift, tokens));
  LoadLaw law;
  law.layers = shape->layers;
  law.experts = shape->experts;
  law.seed = seed;
  law.drift = drift;
  law.tokens = static_cast<double>(tokens);
  const Loads loads = generate_loads(law);
  std::transform(loads.values.begin(), loads.values.end(), counts,
                 [](double v) { return static_cast<int64_t>(v); });
  return {};
}

}  // namespace
}  // namespace rlx::sched

namespace sched = rlx::sched;

rlx_error rlx_eplb_plan(const rlx_eplb_shape* shape, const int64_t* counts,
                        const rlx_eplb_options* options, int32_t* placement, rlx_eplb_layer* layers,
                        rlx_eplb_error* error) {
  return sched::guarded(error,
                        [&] { return sched::plan(shape, counts, options, placement, layers); });
}

rlx_error rlx_eplb_plan_f64(const rlx_eplb_shape* shape, const double* loads,
                            const rlx_eplb_options* options, int32_t* placement,
                            rlx_eplb_layer* layers, rlx_eplb_error* error) {
  return sched::guarded(error,
                        [&] { return sched::plan(shape, loads, options, placement, layers); });
}

rlx_error rlx_eplb_maps(const rlx_eplb_shape* shape, const int32_t* placement, int32_t max_copies,
                        int32_t* copies, int32_t* slots_of, rlx_eplb_error* error) {
  return sched::guarded(
      error, [&] { return sched::maps(shape, placement, max_copies, copies, slots_of); });
}

rlx_error rlx_eplb_split(const rlx_eplb_shape* shape, const int64_t* counts,
                         const int32_t* placement, const rlx_eplb_options* options, int64_t* tokens,
                         rlx_eplb_error* error) {
  return sched::guarded(error,
                        [&] { return sched::split(shape, counts, placement, options, tokens); });
}

rlx_error rlx_eplb_migrate(const rlx_eplb_shape* shape, const int32_t* before, const int32_t* after,
                           int64_t expert_bytes, const uint8_t* dead, rlx_eplb_transfer* transfers,
                           int64_t capacity, int64_t* n_transfers, int64_t* sent, int64_t* received,
                           int64_t* link, rlx_eplb_error* error) {
  return sched::guarded(error, [&] {
    return sched::migrate(shape, before, after, expert_bytes, dead,
                          {transfers, capacity, n_transfers, sent, received, link});
  });
}

rlx_error rlx_eplb_weigh(const rlx_eplb_prospect* p, int32_t* move, double* steps_to_pay,
                         rlx_eplb_error* error) {
  return sched::guarded(error, [&]() -> rlx::Status {
    RLX_TRY(sched::need(p && move && steps_to_pay, "an argument"));
    const std::pair<const char*, double> figures[] = {{"tokens_saved", p->tokens_saved},
                                                      {"excess", p->excess},
                                                      {"noise", p->noise},
                                                      {"token_seconds", p->token_seconds},
                                                      {"move_seconds", p->move_seconds},
                                                      {"hysteresis", p->hysteresis},
                                                      {"discount", p->discount},
                                                      {"horizon_steps", p->horizon_steps}};
    for (const auto& [name, v] : figures)
      if (!std::isfinite(v))
        return rlx::fail(rlx::Code::kInvalid,
                         fmt::format("prospect.{} is {}, want a finite number", name, v));
    const sched::Payback result = sched::weigh(
        {p->tokens_saved, p->excess, p->noise, p->token_seconds, p->move_seconds, p->hysteresis},
        p->discount, p->horizon_steps);
    *move = result.move ? 1 : 0;
    *steps_to_pay = result.steps_to_pay;
    return {};
  });
}

rlx_error rlx_eplb_noise(const rlx_eplb_shape* shape, const int64_t* counts,
                         const int32_t* placement, double* noise, rlx_eplb_error* error) {
  return sched::guarded(error, [&] { return sched::noise(shape, counts, placement, noise); });
}

rlx_error rlx_eplb_generate(const rlx_eplb_shape* shape, uint64_t seed, double drift,
                            int64_t tokens, int64_t* counts, rlx_eplb_error* error) {
  return sched::guarded(error, [&] { return sched::generate(shape, seed, drift, tokens, counts); });
}

uint64_t rlx_eplb_fingerprint(const int32_t* placement, int64_t n) {
  return sched::fingerprint({placement, static_cast<size_t>(std::max<int64_t>(0, n))});
}
