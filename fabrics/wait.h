// SPDX-License-Identifier: MIT OR Apache-2.0
// The only place that waits: spin, then yield the core, then sleep.
//
// A sleeper publishes that it sleeps in its Bell (a word in memory that its peers map), pays for a
// barrier on all cores, looks once more, and sleeps. A waker stores what the sleeper waits for and
// then only loads the bell: no fence, no system call while everybody is awake. Whoever stores
// anything that a peer may wait for (a frame, an acknowledgement, a flag) rings afterwards.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace rlx {

class Wire;

// The word peers look at. All bits zero is a valid, awake bell.
class alignas(128) Bell {
 public:
  // Waker, after its store. Costs one load of a line that hardly ever changes.
  void ring(int wake_fd) {
    if (waker_fences()) std::atomic_thread_fence(std::memory_order_seq_cst);
    if (state_.load(std::memory_order_relaxed) != kAwake) [[unlikely]]
      wake(wake_fd);
  }

  // Owner: from now on wakers act. `by_fd`: they write to the descriptor instead of the futex.
  void announce(bool by_fd);
  void awake() { state_.store(kAwake, std::memory_order_relaxed); }
  // Owner, after announce(false): sleeps until rung, at most timeout_ns.
  void sleep(std::int64_t timeout_ns);

  // Once a process: lets a sleeper's barrier reach this process. Where the kernel has none, every
  // waker of this process pays a fence.
  static void enroll();

 private:
  enum State : std::uint32_t { kAwake = 0, kOnFutex = 1, kOnFd = 2 };
  static bool waker_fences() { return fences_.load(std::memory_order_relaxed); }
  void wake(int wake_fd);

  static std::atomic<bool> fences_;
  std::atomic<std::uint32_t> state_{kAwake};
};

// How long a wait stays in each stage.
struct WaitBudget {
  std::uint32_t spins = 0;        // turns with a pause instruction between
  std::uint32_t yield_us = 2000;  // then turns with sched_yield
  // From facts: cores this process may use against ranks that share the host.
  static WaitBudget from_facts(int n_local_ranks);
};

enum class Turn { kDone, kMoved, kIdle };

class Waiter {
 public:
  // `wires` are watched while asleep. The wires outlive the waiter.
  static Result<std::unique_ptr<Waiter>> create(std::vector<Wire*> wires, WaitBudget budget);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Calls turn() until it says kDone. A turn makes progress itself (polls the endpoint, advances a
  // plan) and says what it saw; kMoved starts the stages again. kTimeout when the deadline passes
  // (the caller names who is missing). `slow` is called before each sleep and about every 50 ms:
  // the place to look for dead peers.
  template <class TurnFn, class SlowFn>
  Status until(TurnFn&& turn, SlowFn&& slow, Deadline deadline) {
    Turn seen = turn();
    if (seen == Turn::kDone) return {};
    Stage stage;
    for (;;) {
      if (seen == Turn::kMoved)
        restart(stage);
      else if (++stage.turns <= budget_.spins)
        pause();
      else if (rest(stage, deadline))
        slow();
      if (stage.expired) return fail(Code::kTimeout, "the deadline passed");
      if (stage.armed) {
        seen = turn();
        if (seen == Turn::kIdle) sleep(stage, deadline);
        disarm(stage);
        if (seen == Turn::kDone) return {};
      }
      seen = turn();
      if (seen == Turn::kDone) return {};
    }
  }

  // From any thread: ends a sleep, if there is one.
  void wake();
  const WaitBudget& budget() const { return budget_; }

 private:
  // Where one wait stands.
  struct Stage {
    std::uint64_t turns = 0;
    std::int64_t idle_since_ns = 0;  // 0: not looked at the clock yet
    std::int64_t slow_at_ns = 0;     // when slow() was last called
    bool armed = false;
    bool expired = false;
  };

  Waiter(std::vector<Wire*> wires, WaitBudget budget);
  static void pause();
  void restart(Stage& stage);
  // Yields or arms for a sleep; true when slow() is due.
  bool rest(Stage& stage, Deadline deadline);
  void sleep(Stage& stage, Deadline deadline);
  void disarm(Stage& stage);

  std::vector<Wire*> wires_;
  WaitBudget budget_;
  Bell own_bell_;  // when no wire has one
  Bell* bell_ = nullptr;
  int epoll_fd_ = -1;  // -1: the futex is all there is
  int wake_fd_ = -1;   // eventfd in epoll_fd_, for wake()
};

}  // namespace rlx
