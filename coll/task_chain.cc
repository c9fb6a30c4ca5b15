// SPDX-License-Identifier: MIT OR Apache-2.0
// The steps of a task in shared memory: one after the other, on areas that all ranks see.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "coll/task.h"

namespace rlx {
namespace {

constexpr std::int64_t kChunkMs = 100;  // far more than a chunk takes
constexpr int kRoundBits = 24;

}  // namespace

bool Task::advance_chain(Links& links) {
  bool moved = false;
  for (;;) {
    const Step& step = plan->steps[at_step];
    if (step.what == Do::stop) {
      if (plan->offers) check_given_up();
      if (timed)
        channel->shown.took(area(channel->group.rank),
                            static_cast<double>(spent_ns) / static_cast<double>(out_bytes));
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
    case Do::reduce:
      work(step);
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

}  // namespace rlx
