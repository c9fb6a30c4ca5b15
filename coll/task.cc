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

constexpr std::int64_t kChunkMs = 100;    // far more than a chunk takes
constexpr std::uint64_t kTinyBytes = 64;  // copied here: calling the kernel costs more
constexpr int kRoundBits = 24;
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
  idle_since_ns = 0;
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

inline std::byte* Task::at(const Ref& ref) const {
  const int space = static_cast<int>(ref.space);
  if (ref.space <= Space::tmp) return base[space] + ref.offset;
  if (ref.space <= Space::result)
    return reinterpret_cast<std::byte*>(&area(ref.rank)) + in_area[space] + ref.offset;
  return (ref.space == Space::peer_in ? peer_in : peer_out)[ref.rank] + ref.offset;
}

// --- steps of both forms ---------------------------------------------------------------------

void Task::reduce(const Step& step, std::uint64_t first, std::uint64_t count) {
  const std::size_t size = size_of(plan->dtype);
  if (dsts.size() != step.n_dst) dsts.resize(step.n_dst);
  if (srcs.size() != step.n_src) srcs.resize(step.n_src);
  for (int i = 0; i < step.n_dst; ++i) dsts[i] = at(plan->refs[step.dst + i]) + first * size;
  for (int i = 0; i < step.n_src; ++i) srcs[i] = at(plan->refs[step.src + i]) + first * size;
  if (!step.divide) return combine(*plan, dsts, srcs, count, step.stores);

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
      kernels::copy(dst, block, n * size, step.stores);
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
    kernels::copy(dst, src, step.n, step.stores);
}

// --- chains ----------------------------------------------------------------------------------

bool Task::advance_chain(Links& links) {
  bool moved = false;
  for (;;) {
    const Step& step = plan->steps[at_step];
    if (step.what == Do::stop) {
      if (plan->offers) check_given_up();
      ended = true;
      return true;
    }
    const Ran ran = run_chain_step(step, links);
    if (ran == Ran::blocked || ended) return moved || ended;
    moved = true;
    if (ran == Ran::again) return true;
  }
}

// The buffers of the rank, or of every rank (-1), are pooled.
bool Task::pooled_at(int rank) const {
  if (rank >= 0) return peer_in[rank] != nullptr;
  return std::all_of(peer_in.begin(), peer_in.end(), [](auto* p) { return p != nullptr; });
}

bool Task::any_pooled() const {
  return std::any_of(peer_in.begin(), peer_in.end(), [](auto* p) { return p != nullptr; });
}

// Moves at_step on when the step is done.
Task::Ran Task::run_chain_step(const Step& step, Links& links) {
  Ran ran = Ran::done;
  switch (step.what) {
    case Do::copy:
      copy(step);
      break;
    case Do::reduce:
      reduce(step, 0, step.n);
      break;
    case Do::arrive:
      arrive(step, links);
      break;
    case Do::await_arrivals:
      ran = await_arrivals(links);
      break;
    case Do::unless_pooled:
      if (!pooled_at(step.peer)) {
        at_step = static_cast<std::uint32_t>(step.n);
        return Ran::done;
      }
      break;
    case Do::if_any_pooled:
      if (any_pooled()) {
        at_step = static_cast<std::uint32_t>(step.n);
        return Ran::done;
      }
      break;
    case Do::signal:
      area(channel->group.rank)
          .reached.value.store(shared_number << kRoundBits | step.round, std::memory_order_release);
      ring(links);
      break;
    case Do::await_all:
    case Do::await_one:
      ran = await_round(step);
      break;
    case Do::claim:
      ran = claim(step, links);
      break;
    case Do::send:
    case Do::recv:
    case Do::stop:
      fail_with(Code::kInternal, "a chain cannot carry messages");
      return Ran::blocked;
  }
  if (ran == Ran::done) ++at_step;
  return ran;
}

void Task::arrive(const Step& step, Links& links) {
  const int rank = channel->group.rank;
  const int parity = static_cast<int>(shared_number & 1);
  Area& own = area(rank);
  if (plan->has_claims && rank == 0) {
    own.claimed[parity].value.store(0, std::memory_order_relaxed);
    own.done[parity].value.store(0, std::memory_order_relaxed);
  }
  Line& line = own.line[parity];
  own.words[parity].text = call;
  line.fingerprint = fingerprint;
  if (plan->offers) {
    line.in_address = pooled ? reinterpret_cast<std::uint64_t>(in) : 0;
    line.out_address = pooled && plan->has_claims ? reinterpret_cast<std::uint64_t>(out) : 0;
  } else if (step.n_src > 0) {
    std::memcpy(line.payload, at(plan->refs[step.src]), step.n);
  }
  line.stamp.store(shared_number, std::memory_order_release);
  ring(links);
}

Task::Ran Task::await_arrivals(Links& links) {
  const Group& group = channel->group;
  const auto n_ranks = static_cast<std::uint32_t>(group.size());
  const int parity = static_cast<int>(shared_number & 1);
  for (; at_peer < n_ranks; ++at_peer) {
    const Line& line = area(static_cast<int>(at_peer)).line[parity];
    if (line.stamp.load(std::memory_order_acquire) != shared_number) return Ran::blocked;
    if (line.fingerprint != fingerprint) {
      mismatched_with = static_cast<int>(at_peer);
      fail_with(Code::kMismatch, "");
      return Ran::blocked;
    }
  }
  at_peer = 0;
  if (!plan->offers) return Ran::done;
  peer_in.resize(n_ranks);
  peer_out.resize(n_ranks);
  for (std::uint32_t r = 0; r < n_ranks; ++r) {
    const Line& line = area(static_cast<int>(r)).line[parity];
    const bool own = static_cast<int>(r) == group.rank;
    const auto find = [&](std::uint64_t address, std::uint64_t n, std::byte* here) {
      if (address == 0) return static_cast<std::byte*>(nullptr);
      return own ? here : links.pool_pointer(group.world[r], address, n);
    };
    peer_in[r] = find(line.in_address, in_bytes, in);
    peer_out[r] = find(line.out_address, out_bytes, out);
    if ((line.in_address != 0 && peer_in[r] == nullptr) ||
        (line.out_address != 0 && peer_out[r] == nullptr)) {
      fail_with(Code::kSystem, fmt::format("rank {}'s pool memory cannot be mapped here", r));
      return Ran::blocked;
    }
  }
  return Ran::done;
}

Task::Ran Task::await_round(const Step& step) {
  const std::uint64_t want = shared_number << kRoundBits | step.round;
  const auto reached = [&](int rank) {
    return area(rank).reached.value.load(std::memory_order_acquire) >= want;
  };
  if (step.what == Do::await_one) return reached(step.peer) ? Ran::done : Ran::blocked;
  for (; at_peer < static_cast<std::uint32_t>(channel->group.size()); ++at_peer)
    if (!reached(static_cast<int>(at_peer))) return Ran::blocked;
  at_peer = 0;
  return Ran::done;
}

// One chunk a run, so that the engine can poll between chunks.
Task::Ran Task::claim(const Step& step, Links& links) {
  const int parity = static_cast<int>(shared_number & 1);
  auto& claimed = area(0).claimed[parity].value;
  auto& finished = area(0).done[parity].value;
  const std::uint64_t n_chunks = (step.n + step.chunk - 1) / step.chunk;
  if (at_peer == 0) {  // some chunk may be left
    const std::uint64_t mine = claimed.fetch_add(1);
    if (mine < n_chunks) {
      check_given_up();
      if (ended) return Ran::blocked;
      const std::uint64_t first = mine * step.chunk;
      reduce(step, first, std::min<std::uint64_t>(step.chunk, step.n - first));
      if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 == n_chunks) ring(links);
      return Ran::again;
    }
    at_peer = 1;
  }
  if (finished.load(std::memory_order_acquire) < n_chunks) return Ran::blocked;
  at_peer = 0;
  return Ran::done;
}

// What was read from the buffers of a rank that has left the call may be something else by then.
void Task::check_given_up() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (const int rank = gave_up(); rank >= 0)
    fail_with(Code::kPeerFailed, fmt::format("rank {} has given it up", rank));
}

int Task::gave_up() const {
  for (int r = 0; r < channel->group.size(); ++r)
    if (area(r).given_up.value.load() == shared_number) return r;
  return -1;
}

void Task::give_up() {
  const int parity = static_cast<int>(shared_number & 1);
  if (area(channel->group.rank).line[parity].stamp.load() != shared_number) return;  // not here yet
  area(channel->group.rank).given_up.value.store(shared_number);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!plan->has_claims) return;
  // Nobody begins a chunk after this; chunks that were begun write to our buffers. A rank that
  // stopped in the midst of one is not waited for.
  const auto& taken = area(0).claimed[parity].value;
  const auto& finished = area(0).done[parity].value;
  const Deadline deadline = Deadline::after_ms(kChunkMs);
  while (finished.load() < taken.load() && !deadline.passed()) {
  }
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
