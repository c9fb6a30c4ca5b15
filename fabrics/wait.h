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
  // Waker, after its store. Costs one load of a line that hardly ever changes. `wake_fd` is where
  // to write a byte if the sleeper watches a descriptor.
  void ring(int wake_fd) {
    if (rings_strictly_.load(std::memory_order_relaxed)) [[unlikely]]
      return ring_strictly(wake_fd);
    if (state_.load(std::memory_order_relaxed) != kAwake) [[unlikely]]
      wake(wake_fd);
  }
  // Needs no barrier of the sleeper: the exchange in announce() and this one on the same word put
  // the store and the sleeper's last look in order.
  void ring_strictly(int wake_fd) {
    if (state_.fetch_or(0) != kAwake) wake(wake_fd);
  }

  // Owner, once: sleeps will be on the futex; otherwise wakers write to the descriptor.
  void use_futex() { how_ = kOnFutex; }
  // Owner: from now on wakers act; stores they made before are visible after the return.
  void announce();
  void awake() { state_.store(kAwake, std::memory_order_relaxed); }
  // Owner, after announce(): sleeps until rung (true), or for timeout_ns.
  bool sleep(std::int64_t timeout_ns);

  // Once a process, before it rings anything: lets a sleeper's barrier reach this process. Where
  // the kernel has none, the process rings strictly, at 25 ns a time.
  static void enroll();

 private:
  enum State : std::uint32_t { kAwake = 0, kOnFutex = 1, kOnFd = 2 };
  void wake(int wake_fd);

  static std::atomic<bool> rings_strictly_;
  std::atomic<std::uint32_t> state_{kAwake};
  std::uint32_t how_ = kOnFd;  // the owner's own; peers do not look at it
};

// How long a wait stays in each stage.
struct WaitBudget {
  std::uint32_t spins = 0;        // turns with a pause instruction between, for half a millisecond
  std::uint32_t yield_us = 2000;  // then turns with sched_yield
  // From facts: whether every rank of this host has a core to itself.
  static WaitBudget from_load(double ranks_per_core);
  bool is_crowded() const;
};

enum class Turn { kDone, kMoved, kIdle };

class Waiter {
 public:
  // `wires` are watched while asleep and outlive the waiter.
  static Result<std::unique_ptr<Waiter>> create(std::vector<Wire*> wires, WaitBudget budget);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Calls turn() until it says kDone. A turn makes progress itself (polls the endpoint, advances a
  // plan) and says what it saw; kMoved starts the stages again. kTimeout when the deadline passes
  // (the caller names who is missing). slow() is called about every 50 ms: the place to look for
  // dead peers.
  template <class TurnFn, class SlowFn>
  Status until(TurnFn&& turn, SlowFn&& slow, Deadline deadline) {
    Turn seen = turn();
    if (seen == Turn::kDone) return {};
    Stage stage;
    while (seen != Turn::kDone) {
      if (seen == Turn::kMoved ? restart(stage, deadline) : rest(stage, deadline)) slow();
      if (stage.expired) return fail(Code::kTimeout, "the deadline passed");
      seen = turn();
      if (!stage.armed) continue;
      while (seen == Turn::kIdle && !sleep(stage, deadline)) {
        seen = turn();
        n_late_ += seen != Turn::kIdle;
        slow();
      }
      disarm(stage);
      if (seen == Turn::kIdle) seen = turn();
    }
    return {};
  }

  // From any thread: ends a sleep, if there is one.
  void wake();
  // Sleeps that timed out although there was something to do.
  std::uint64_t n_late() const { return n_late_; }
  void set_budget(WaitBudget budget);

 private:
  // Where one wait stands.
  struct Stage {
    std::uint32_t turns = 0;  // idle ones since the last that moved anything
    std::uint32_t moves = 0;
    std::int64_t idle_since_ns = 0;  // 0: not looked at the clock yet
    std::int64_t slow_at_ns = 0;     // when slow() was last due
    bool spun = false;               // the spinning stage is over
    bool armed = false;
    bool expired = false;
  };

  explicit Waiter(std::vector<Wire*> wires, WaitBudget budget);
  Status watch_wires();
  // Both: true when slow() is due.
  bool restart(Stage& stage, const Deadline& deadline);
  bool rest(Stage& stage, const Deadline& deadline) {
    if (!stage.spun && ++stage.turns < budget_.spins && (stage.turns & 63) != 0) [[likely]] {
      pause();
      return false;
    }
    return look_at_clock(stage, deadline);
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  bool look_at_clock(Stage& stage, const Deadline& deadline);
  void end_of_spinning();
  void arm(Stage& stage);
  // All peers wake us through the kernel: no bell of ours is in anybody's memory.
  bool sockets_only() const { return bell_ == &own_bell_ && event_fd_ >= 0; }
  // False when slow() is due; true when something happened or the deadline passed.
  bool sleep(Stage& stage, const Deadline& deadline);
  void disarm(Stage& stage);

  std::vector<Wire*> wires_;
  WaitBudget budget_;  // as adapted
  WaitBudget wanted_;  // as set
  Bell own_bell_;      // when no wire has one
  Bell* bell_ = nullptr;
  int epoll_fd_ = -1;  // -1: the futex is all there is
  int event_fd_ = -1;  // in epoll_fd_, for wake()
  bool rung_ = false;  // event_fd_ ended the last sleep
  long switches_ = 0;  // involuntary ones of this thread, when a spinning stage last ended
  std::uint64_t n_late_ = 0;
  int crowded_ = 0;  // how often of late spinning was interrupted
};

}  // namespace rlx
