// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/exact.h"
#include "kernels/reduce.h"

namespace rlx {
namespace {

constexpr std::uint64_t kTinyBytes = 64;  // copied here: calling the kernel costs more
constexpr std::uint64_t kCallMix = 0x9e3779b97f4a7c15;  // odd: distinct for distinct numbers

// The plan's reduction over `count` elements, without the division.
void combine(const Plan& plan, std::span<void* const> dsts, std::span<const void* const> srcs,
             std::uint64_t count, kernels::Stores stores) {
  const Op op = plan.op == Op::avg ? Op::sum : plan.op;
  if (plan.exact)
    kernels::exact_sum_n(plan.dtype, dsts, srcs, count, stores);
  else if (srcs.size() == 2 && dsts.size() == 1 && stores == kernels::Stores::cached)
    kernels::reduce2(plan.dtype, op, dsts[0], srcs[0], srcs[1], count);
  else
    kernels::reduce_n(plan.dtype, op, dsts, srcs, count, stores);
}

// Of a message that came; its room if it failed.
std::uint64_t whole_size(const Request& message, std::uint64_t room) {
  if (message.code == Code::kOk) return message.n_bytes;
  return message.code == Code::kTruncated ? message.n_whole : room;
}

}  // namespace

std::string uneven_text(int from, std::uint64_t n_sent, int to, std::uint64_t n_expected) {
  return fmt::format(
      "rank {} sends {} bytes to rank {}, which expects {}: their counts do not agree", from,
      n_sent, to, n_expected);
}

void Scratch::reserve(std::uint64_t n_bytes) {
  if (n_bytes <= room_) return;
  constexpr std::uintptr_t kAlign = 128;
  owned_.reset(new std::byte[n_bytes + kAlign]);  // not initialised: most of it may never be used
  const auto address = reinterpret_cast<std::uintptr_t>(owned_.get());
  data_ = owned_.get() + (kAlign - address % kAlign) % kAlign;
  room_ = n_bytes;
}

std::uint64_t message_tag(const Task& task, std::uint32_t round) {
  const std::uint64_t number = task.call.number & 0x3fff;
  return std::uint64_t{1} << 63 | number << 48 |
         std::uint64_t{task.channel->group.context & 0xffff} << 32 |
         std::uint64_t{round & 0xffff} << 16 | (task.fingerprint >> 48);
}

void Task::bind(const Job& job, std::uint64_t number, std::uint64_t shared) {
  kind = Kind::kCollective;
  done = cancelled = ended = reported = closing = false;
  if (code != Code::kOk) {
    code = trouble = Code::kOk;
    text.clear();
    mismatched_with = -1;
  }
  idle_since_ns = spent_ns = 0;
  channel = job.channel;
  plan = job.plan;
  if (job.owned) {
    plan_owned = job.owned;
    plan = plan_owned.get();
  }
  in = static_cast<std::byte*>(const_cast<void*>(job.in));
  out = static_cast<std::byte*>(job.out);
  in_bytes = job.in_bytes;
  out_bytes = job.out_bytes;
  pooled = job.pooled;
  call = job.text;
  call.number = number;
  // With the calls before: a rank whose part in one needed nobody may not have seen that it
  // differs.
  fingerprint = channel->history = (channel->history ^ job.fingerprint ^ number) * kCallMix;
  tmp.reserve(plan->tmp_bytes);
  shown_stores = kernels::Stores::cached;
  timed = false;
  at_step = at_peer = 0;
  shared_number = shared;
  bind_spaces();
  if (plan->chain) return;
  const std::size_t n_steps = plan->steps.size();
  n_left = static_cast<std::uint32_t>(n_steps);
  deps.resize(n_steps);
  ready.clear();
  in_flight.clear();
  // Backwards, because `ready` is taken from its end: first steps first.
  for (std::size_t i = n_steps; i-- > 0;) {
    deps[i] = plan->steps[i].n_deps;
    if (deps[i] == 0) ready.push_back(static_cast<std::uint32_t>(i));
  }
}

bool Task::advance(Links& links) {
  return plan->chain ? advance_chain(links) : advance_graph(links);
}

void Task::fail_with(Code why, std::string what) {
  trouble = why;
  trouble_text = std::move(what);
  ended = true;
}

void Task::choose_stores() {
  if (out_bytes < kShownFrom) return;
  shown_stores =
      channel->shown.begin(channel->group.areas, static_cast<Coll>(call.coll), out_bytes);
  timed = channel->shown.asks();
}

// Where Refs lead, decided once for the call; line and slot alternate.
void Task::bind_spaces() {
  base[static_cast<int>(Space::in)] = in;
  base[static_cast<int>(Space::out)] = out;
  base[static_cast<int>(Space::tmp)] = tmp.data();
  if (!plan->shared) return;
  const std::size_t parity = shared_number & 1;
  in_area[static_cast<int>(Space::line)] =
      offsetof(Area, line) + parity * sizeof(Line) + offsetof(Line, payload);
  in_area[static_cast<int>(Space::slot)] = offsetof(Area, slot) + parity * kSlotBytes;
  in_area[static_cast<int>(Space::stage)] = offsetof(Area, stage);
  in_area[static_cast<int>(Space::result)] = offsetof(Area, result);
}

// --- steps of both forms ---------------------------------------------------------------------

// Waiting does not count: when the others come has other reasons. Stores count until they are out.
void Task::work(const Step& step) {
  const std::int64_t began_ns = timed ? now_ns() : 0;
  if (step.what == Do::copy)
    copy(step);
  else
    reduce(step, 0, step.n);
  if (!timed) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  spent_ns += now_ns() - began_ns;
}

void Task::reduce(const Step& step, std::uint64_t first, std::uint64_t count) {
  const std::size_t size = size_of(plan->dtype);
  if (dsts.size() != step.n_dst) dsts.resize(step.n_dst);
  if (srcs.size() != step.n_src) srcs.resize(step.n_src);
  for (int i = 0; i < step.n_dst; ++i) dsts[i] = at(plan->refs[step.dst + i]) + first * size;
  for (int i = 0; i < step.n_src; ++i) srcs[i] = at(plan->refs[step.src + i]) + first * size;
  const kernels::Stores stores = step.shown ? shown_stores : step.stores;
  if (!step.divide) return combine(*plan, dsts, srcs, count, stores);

  // The division happens in a small block before it goes out: peers' lines are written once.
  alignas(64) std::byte block[4096];
  const std::uint64_t n_block = sizeof(block) / size;
  const auto n_ranks = static_cast<std::size_t>(channel->group.size());
  for (std::uint64_t done_count = 0; done_count < count; done_count += n_block) {
    const std::uint64_t n = std::min(n_block, count - done_count);
    void* const to_block[] = {block};
    combine(*plan, to_block, srcs, n, kernels::Stores::cached);
    kernels::divide(plan->dtype, block, n, n_ranks);
    for (void*& dst : dsts) {
      kernels::copy(dst, block, n * size, stores);
      dst = static_cast<std::byte*>(dst) + n * size;
    }
    for (const void*& src : srcs) src = static_cast<const std::byte*>(src) + n * size;
  }
}

void Task::copy(const Step& step) {
  std::byte* const dst = at(plan->refs[step.dst]);
  const std::byte* const src = at(plan->refs[step.src]);
  if (step.n <= kTinyBytes)
    std::memcpy(dst, src, step.n);
  else
    kernels::copy(dst, src, step.n, step.shown ? shown_stores : step.stores);
}

// --- graphs ----------------------------------------------------------------------------------

bool Task::advance_graph(Links& links) {
  const std::uint32_t left = n_left;
  if (!in_flight.empty()) check_in_flight();
  while (!ready.empty() && !ended) {
    const std::uint32_t step = ready.back();
    ready.pop_back();
    start_step(step, links);
  }
  if (n_left == 0) ended = true;
  return n_left != left || ended;
}

void Task::check_in_flight() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < in_flight.size(); ++i) {
    const InFlight item = in_flight[i];
    if (ended || !item.request->done) {
      in_flight[kept++] = item;
      continue;
    }
    Request& message = *item.request;
    const Step& step = plan->steps[item.step];
    const bool came = step.what == Do::recv && message.code != Code::kPeerFailed;
    if (came && ((message.tag ^ message_tag(*this, step.round)) & kTagFingerprint) != 0) {
      mismatched_with = step.peer;
      fail_with(Code::kMismatch, "");
    } else if (const std::uint64_t n = came ? whole_size(message, step.n) : step.n; n != step.n) {
      fail_with(Code::kMismatch, uneven_text(step.peer, n, channel->group.rank, step.n));
    } else if (message.code != Code::kOk) {
      fail_with(message.code, message.text);
    } else {
      if (step.what == Do::recv) note_arrival(step.peer);
      finish_step(item.step);
    }
    message.release();
  }
  in_flight.resize(kept);
}

// A message of this call says as much as a report.
void Task::note_arrival(int peer) {
  CallText& last = channel->reported[static_cast<std::size_t>(peer)];
  if (last.number < call.number) last = call;
}

void Task::start_step(std::uint32_t index, Links& links) {
  const Step& step = plan->steps[index];
  Request* request = nullptr;
  switch (step.what) {
    case Do::copy:
      copy(step);
      break;
    case Do::reduce:
      reduce(step, 0, step.n);
      break;
    case Do::send:
      request = links.isend(channel->group.world[step.peer], message_tag(*this, step.round),
                            at(plan->refs[step.src]), step.n);
      break;
    case Do::recv:
      request = links.irecv(channel->group.world[step.peer], message_tag(*this, step.round),
                            ~kTagFingerprint, at(plan->refs[step.dst]), step.n);
      break;
    default:
      fail_with(Code::kInternal, "a graph carries messages only");
      return;
  }
  if (request != nullptr)
    in_flight.push_back({index, request});
  else
    finish_step(index);
}

void Task::finish_step(std::uint32_t index) {
  const Step& step = plan->steps[index];
  --n_left;
  for (std::uint32_t i = 0; i < step.n_succ; ++i) {
    const std::uint32_t next = plan->succs[step.succ + i];
    if (--deps[next] == 0) ready.push_back(next);
  }
}

}  // namespace rlx
