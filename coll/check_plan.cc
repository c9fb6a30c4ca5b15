// SPDX-License-Identifier: MIT OR Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "coll/area.h"
#include "coll/simulate.h"

namespace rlx {
namespace {

struct Touch {
  std::uint32_t step;
  Space space;
  int rank;
  std::uint64_t first, end;
  bool writes;
};

// Bytes of the user's buffers that a call of this shape may touch.
std::uint64_t extent(const Blocks& blocks, std::uint64_t size) {
  std::uint64_t most = 0;
  for (std::size_t r = 0; r < blocks.counts.size(); ++r)
    most = std::max(most, (blocks.displs[r] + blocks.counts[r]) * size);
  return most;
}

struct Room {
  std::uint64_t in = 0, out = 0;
};

Room room_of(const Shape& shape) {
  const std::uint64_t size = size_of(shape.dtype), block = shape.n_bytes();
  const std::uint64_t all = block * static_cast<std::uint64_t>(shape.n_ranks);
  switch (shape.coll) {
    case Coll::barrier:
      return {};
    case Coll::broadcast:
    case Coll::all_reduce:
      return {block, block};
    case Coll::reduce:
      return {block, shape.is_root() ? block : 0};
    case Coll::all_gather:
      return {block, all};
    case Coll::all_gatherv:
      return {shape.recv.counts[static_cast<std::size_t>(shape.rank)] * size,
              extent(shape.recv, size)};
    case Coll::reduce_scatter:
      return {all, block};
    case Coll::all_to_all:
      return {all, all};
    case Coll::all_to_allv:
      return {extent(shape.send, size), extent(shape.recv, size)};
    case Coll::gather:
      return {block, shape.is_root() ? all : 0};
    case Coll::gatherv:
      return {block, shape.is_root() ? extent(shape.recv, size) : 0};
    case Coll::scatter:
      return {shape.is_root() ? all : 0, block};
    case Coll::scatterv:
      return {shape.is_root() ? extent(shape.send, size) : 0, block};
  }
  return {};
}

std::uint64_t room_in(Space space, const Plan& plan, const Shape& shape) {
  switch (space) {
    case Space::in:
    case Space::peer_in:
      return room_of(shape).in;
    case Space::out:
    case Space::peer_out:
      return room_of(shape).out;
    case Space::tmp:
      return plan.tmp_bytes;
    case Space::line:
      return kLineBytes;
    case Space::slot:
      return kSlotBytes;
    case Space::stage:
      return kStageHalves * kStageBytes;
    case Space::result:
      return kStageHalves * kResultBytes;
  }
  return 0;
}

// Where the input lies within the output of a call in place, or the other way round.
void unify(Touch& touch, const Shape& shape) {
  if (!shape.in_place) return;
  const auto rank = static_cast<std::uint64_t>(shape.rank);
  const std::uint64_t size = size_of(shape.dtype);
  std::uint64_t shift = 0;
  Space moves = Space::in;
  switch (shape.coll) {
    case Coll::all_gather:
    case Coll::gather:
      shift = rank * shape.n_bytes();
      break;
    case Coll::all_gatherv:
    case Coll::gatherv:
      shift = shape.recv.displs[rank] * size;
      break;
    case Coll::reduce_scatter:
    case Coll::scatter:
      moves = Space::out;
      shift = rank * shape.n_bytes();
      break;
    case Coll::scatterv:
      moves = Space::out;
      shift = shape.send.displs[rank] * size;
      break;
    default:
      break;
  }
  if (touch.space == moves) {
    touch.first += shift;
    touch.end += shift;
  }
  if (touch.space == Space::out) touch.space = Space::in;
}

std::uint64_t bytes_of(const Step& step, const Plan& plan) {
  const bool elements = step.what == Do::reduce || step.what == Do::claim;
  return step.n * (elements ? size_of(plan.dtype) : 1);
}

std::vector<Touch> touches_of(const Plan& plan) {
  std::vector<Touch> touches;
  for (std::uint32_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const std::uint64_t n = bytes_of(step, plan);
    const auto add = [&](std::uint32_t at, bool writes) {
      const Ref& ref = plan.refs[at];
      touches.push_back({i, ref.space, ref.rank, ref.offset, ref.offset + n, writes});
    };
    for (std::uint32_t k = 0; k < step.n_dst; ++k) add(step.dst + k, true);
    for (std::uint32_t k = 0; k < step.n_src; ++k) add(step.src + k, false);
  }
  return touches;
}

// before[a] has b's bit: b runs after a.
using Reach = std::vector<std::vector<bool>>;

Reach reach_of(const Plan& plan) {
  const std::size_t n = plan.steps.size();
  Reach reach(n, std::vector<bool>(n));
  std::vector<std::uint32_t> deps(n), order;
  for (std::size_t i = 0; i < n; ++i) deps[i] = plan.steps[i].n_deps;
  for (std::uint32_t i = 0; i < n; ++i)
    if (deps[i] == 0) order.push_back(i);
  for (std::size_t at = 0; at < order.size(); ++at) {
    const Step& step = plan.steps[order[at]];
    for (std::uint32_t s = 0; s < step.n_succ; ++s)
      if (--deps[plan.succs[step.succ + s]] == 0) order.push_back(plan.succs[step.succ + s]);
  }
  if (order.size() != n) return {};
  for (std::size_t at = n; at-- > 0;) {
    const std::uint32_t i = order[at];
    const Step& step = plan.steps[i];
    for (std::uint32_t s = 0; s < step.n_succ; ++s) {
      const std::uint32_t next = plan.succs[step.succ + s];
      reach[i][next] = true;
      for (std::size_t k = 0; k < n; ++k)
        if (reach[next][k]) reach[i][k] = true;
    }
  }
  return reach;
}

}  // namespace

std::string check_plan(const Plan& plan, const Shape& shape) {
  std::vector<Touch> touches = touches_of(plan);
  for (const Touch& touch : touches)
    if (touch.end > room_in(touch.space, plan, shape))
      return fmt::format("step {} goes beyond its space", touch.step);
  if (plan.chain) return {};
  const Reach reach = reach_of(plan);
  if (reach.empty() && !plan.steps.empty()) return "the steps depend on each other in a circle";
  std::erase_if(touches, [](const Touch& touch) { return touch.first == touch.end; });
  for (Touch& touch : touches) unify(touch, shape);
  for (const Touch& a : touches)
    for (const Touch& b : touches) {
      if (a.step >= b.step || a.space != b.space || a.rank != b.rank || !(a.writes || b.writes) ||
          a.end <= b.first || b.end <= a.first)
        continue;
      if (!reach[a.step][b.step] && !reach[b.step][a.step])
        return fmt::format("steps {} and {} touch the same bytes in no order", a.step, b.step);
    }
  return {};
}

}  // namespace rlx
