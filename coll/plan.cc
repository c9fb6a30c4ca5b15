// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace rlx {
namespace {

constexpr std::uint64_t kTmpAlign = 128;

const char* name_of(Do what) {
  static constexpr const char* kNames[] = {
      "copy",           "reduce",        "send",          "recv",   "arrive",
      "await_arrivals", "unless_pooled", "if_any_pooled", "signal", "await_all",
      "await_one",      "claim",         "stop"};
  return kNames[static_cast<int>(what)];
}

const char* name_of(Space space) {
  static constexpr const char* kNames[] = {"in",    "out",    "tmp",     "line",    "slot",
                                           "stage", "result", "peer_in", "peer_out"};
  return kNames[static_cast<int>(space)];
}

}  // namespace

PlanBuilder PlanBuilder::chain() {
  PlanBuilder builder;
  builder.plan_.chain = true;
  return builder;
}

PlanBuilder PlanBuilder::graph() { return {}; }

void PlanBuilder::reduction(Dtype dtype, Op op, bool exact) {
  plan_.dtype = dtype;
  plan_.op = op;
  plan_.exact = exact;
}

Ref PlanBuilder::tmp(std::uint64_t n_bytes) {
  const Ref ref{Space::tmp, 0, plan_.tmp_bytes};
  plan_.tmp_bytes += (n_bytes + kTmpAlign - 1) / kTmpAlign * kTmpAlign;
  return ref;
}

std::uint32_t PlanBuilder::add_refs(const std::vector<Ref>& refs) {
  const auto first = static_cast<std::uint32_t>(plan_.refs.size());
  plan_.refs.insert(plan_.refs.end(), refs.begin(), refs.end());
  return first;
}

PlanBuilder::Id PlanBuilder::add(Step step) {
  plan_.steps.push_back(step);
  return static_cast<Id>(plan_.steps.size() - 1);
}

PlanBuilder::Id PlanBuilder::copy(Ref dst, Ref src, std::uint64_t n_bytes, kernels::Stores stores) {
  const std::uint32_t d = add_refs({dst}), s = add_refs({src});
  const Id id = add({.what = Do::copy,
                     .stores = stores,
                     .n_dst = 1,
                     .n_src = 1,
                     .dst = d,
                     .src = s,
                     .n = n_bytes});
  if (dst.space == Space::slot || dst.space == Space::stage || dst.space == Space::result) show(id);
  return id;
}

PlanBuilder::Id PlanBuilder::reduce(const std::vector<Ref>& dsts, const std::vector<Ref>& srcs,
                                    std::uint64_t count, kernels::Stores stores) {
  const std::uint32_t d = add_refs(dsts), s = add_refs(srcs);
  return add({.what = Do::reduce,
              .stores = stores,
              .n_dst = static_cast<std::uint16_t>(dsts.size()),
              .n_src = static_cast<std::uint16_t>(srcs.size()),
              .dst = d,
              .src = s,
              .n = count});
}

PlanBuilder::Id PlanBuilder::send(int peer, Ref src, std::uint64_t n_bytes, std::uint32_t round) {
  return add({.what = Do::send,
              .n_src = 1,
              .peer = peer,
              .src = add_refs({src}),
              .round = round,
              .n = n_bytes});
}

PlanBuilder::Id PlanBuilder::recv(int peer, Ref dst, std::uint64_t n_bytes, std::uint32_t round) {
  return add({.what = Do::recv,
              .n_dst = 1,
              .peer = peer,
              .dst = add_refs({dst}),
              .round = round,
              .n = n_bytes});
}

PlanBuilder::Id PlanBuilder::arrive() {
  plan_.shared = true;
  return add({.what = Do::arrive});
}

PlanBuilder::Id PlanBuilder::arrive(Ref payload, std::uint64_t n_bytes) {
  plan_.shared = true;
  return add({.what = Do::arrive, .n_src = 1, .src = add_refs({payload}), .n = n_bytes});
}

PlanBuilder::Id PlanBuilder::await_arrivals() { return add({.what = Do::await_arrivals}); }

PlanBuilder::Id PlanBuilder::unless_pooled(int peer) {
  plan_.offers = true;
  return add({.what = Do::unless_pooled, .peer = peer});
}

PlanBuilder::Id PlanBuilder::if_any_pooled() {
  plan_.offers = true;
  return add({.what = Do::if_any_pooled});
}

void PlanBuilder::land(Id branch) { plan_.steps[branch].n = plan_.steps.size(); }

PlanBuilder::Id PlanBuilder::signal(std::uint32_t round) {
  return add({.what = Do::signal, .round = round});
}

PlanBuilder::Id PlanBuilder::await_all(std::uint32_t round) {
  return add({.what = Do::await_all, .round = round});
}

PlanBuilder::Id PlanBuilder::await_one(int peer, std::uint32_t round) {
  return add({.what = Do::await_one, .peer = peer, .round = round});
}

PlanBuilder::Id PlanBuilder::claim(const std::vector<Ref>& dsts, const std::vector<Ref>& srcs,
                                   std::uint64_t count, std::uint32_t chunk,
                                   kernels::Stores stores) {
  const Id id = reduce(dsts, srcs, count, stores);
  plan_.has_claims = true;
  plan_.steps[id].what = Do::claim;
  plan_.steps[id].chunk = chunk;
  return id;
}

PlanBuilder::Id PlanBuilder::stop() { return add({.what = Do::stop}); }

void PlanBuilder::after(Id later, Id earlier) { edges_.emplace_back(earlier, later); }

void PlanBuilder::after(Id later, const std::vector<Id>& earlier) {
  for (const Id id : earlier) after(later, id);
}

void PlanBuilder::show(Id step) {
  Step& s = plan_.steps[step];
  const std::uint64_t unit = s.what == Do::reduce ? size_of(plan_.dtype) : 1;
  s.shown = s.n * unit >= kShownFrom;
}

Plan PlanBuilder::seal() && {
  if (plan_.chain) {
    if (plan_.steps.empty() || plan_.steps.back().what != Do::stop) stop();
    return std::move(plan_);
  }
  std::sort(edges_.begin(), edges_.end());
  edges_.erase(std::unique(edges_.begin(), edges_.end()), edges_.end());
  plan_.succs.reserve(edges_.size());
  for (const auto& [earlier, later] : edges_) {
    Step& from = plan_.steps[earlier];
    if (from.n_succ++ == 0) from.succ = static_cast<std::uint32_t>(plan_.succs.size());
    plan_.succs.push_back(later);
    ++plan_.steps[later].n_deps;
  }
  return std::move(plan_);
}

std::string to_string(const Plan& plan) {
  std::string text;
  const auto refs = [&](std::uint32_t first, std::uint16_t n) {
    std::string list;
    for (std::uint16_t i = 0; i < n; ++i) {
      const Ref& ref = plan.refs[first + i];
      list += fmt::format(" {}[{}]+{}", name_of(ref.space), ref.rank, ref.offset);
    }
    return list;
  };
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    text +=
        fmt::format("{}: {} n={} peer={} round={}{} <-{}", i, name_of(step.what), step.n, step.peer,
                    step.round, refs(step.dst, step.n_dst), refs(step.src, step.n_src));
    for (std::uint32_t s = 0; s < step.n_succ; ++s)
      text += fmt::format(" >{}", plan.succs[step.succ + s]);
    text += '\n';
  }
  return text;
}

}  // namespace rlx
