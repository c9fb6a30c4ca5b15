// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/wait.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>

#include "fabrics/wire.h"

namespace rlx {
namespace {

constexpr std::int64_t kSlowEveryNs = 50'000'000;
constexpr std::int64_t kMaxSpinNs = 500'000;
// Measured on two cores: without a core for each rank, each spin beyond about 100 costs linearly;
// with one, an early yield gives a foreign process a whole time slice.
constexpr std::uint32_t kSpinsAlone = 20000;
constexpr std::uint32_t kSpinsCrowded = 2;
// A look at sockets costs system calls; 30 of them are longer than a sleep and its end.
constexpr std::uint32_t kSpinsCrowdedSockets = 1;
// After this many interrupted spinning stages more than quiet ones, spinning is given up.
constexpr int kCrowdedLimit = 8;

long involuntary_switches() {
  rusage usage;
  return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_nivcsw : 0;
}

}  // namespace

std::atomic<bool> Bell::rings_strictly_{false};

void Bell::enroll() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) != 0)
      rings_strictly_.store(true);
  });
}

void Bell::announce() {
  state_.exchange(how_);
  // Fails only where enroll() failed too, and then wakers ring strictly.
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

bool Bell::sleep(std::int64_t timeout_ns) {
  const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
  syscall(SYS_futex, &state_, FUTEX_WAIT, kOnFutex, &timeout, nullptr, 0);
  return state_.load(std::memory_order_relaxed) == kAwake;
}

void Bell::wake(int wake_fd) {
  const std::uint32_t was = state_.exchange(kAwake);
  if (was == kOnFutex) syscall(SYS_futex, &state_, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  // A full pipe is fine: its reader wakes up anyway.
  if (was == kOnFd && wake_fd >= 0) [[maybe_unused]]
    const ssize_t n = write(wake_fd, "", 1);
}

WaitBudget WaitBudget::from_load(double ranks_per_core) {
  // A little above 1: a rank whose affinity overlaps unevenly with others' still has its core.
  return {.spins = ranks_per_core <= 1.01 ? kSpinsAlone : kSpinsCrowded};
}

bool WaitBudget::is_crowded() const { return spins <= kSpinsCrowded; }

Waiter::Waiter(std::vector<Wire*> wires, WaitBudget budget)
    : wires_(std::move(wires)), budget_(budget), wanted_(budget), bell_(&own_bell_) {}

Result<std::unique_ptr<Waiter>> Waiter::create(std::vector<Wire*> wires, WaitBudget budget) {
  Bell::enroll();
  std::erase_if(wires, [](Wire* wire) { return wire->fd() < 0 && wire->bell() == nullptr; });
  std::unique_ptr<Waiter> waiter(new Waiter(std::move(wires), budget));
  RLX_TRY(waiter->watch_wires());
  return waiter;
}

Status Waiter::watch_wires() {
  for (Wire* wire : wires_)
    if (wire->bell() != nullptr) bell_ = wire->bell();
  const bool only_bell = wires_.empty() || (wires_.size() == 1 && wires_[0]->bell() != nullptr);
  if (only_bell) {
    bell_->use_futex();
    return {};
  }
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd_ < 0) return fail_errno("epoll_create1");
  event_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event_fd_ < 0) return fail_errno("eventfd");
  epoll_event event{.events = EPOLLIN, .data = {.fd = event_fd_}};
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, event_fd_, &event) != 0) return fail_errno("epoll_ctl");
  for (Wire* wire : wires_) {
    event.data.fd = wire->fd();
    if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wire->fd(), &event) != 0)
      return fail_errno("epoll_ctl");
  }
  return {};
}

Waiter::~Waiter() {
  if (epoll_fd_ >= 0) close(epoll_fd_);
  if (event_fd_ >= 0) close(event_fd_);
}

bool Waiter::restart(Stage& stage, const Deadline& deadline) {
  stage.turns = 0;
  stage.idle_since_ns = 0;
  stage.spun = false;
  if ((++stage.moves & 1023) != 0) return false;
  const std::int64_t now = now_ns();
  stage.expired = deadline.passed();
  if (stage.slow_at_ns == 0) stage.slow_at_ns = now;
  if (now - stage.slow_at_ns < kSlowEveryNs) return false;
  stage.slow_at_ns = now;
  return true;
}

// Decides between another spin, a yield and a sleep.
bool Waiter::look_at_clock(Stage& stage, const Deadline& deadline) {
  const std::int64_t now = now_ns();
  if (stage.idle_since_ns == 0) stage.idle_since_ns = now;
  if (stage.slow_at_ns == 0) stage.slow_at_ns = now;
  stage.expired = deadline.passed();
  const std::int64_t idle_ns = now - stage.idle_since_ns;
  if (!stage.spun && stage.turns < budget_.spins && idle_ns < kMaxSpinNs) {
    pause();
    return false;
  }
  if (!stage.spun && wanted_.spins == kSpinsAlone) end_of_spinning();
  stage.spun = true;
  // Where every peer is behind a socket and cores are short, a yield hands the core to whoever
  // wants it for a whole time slice; the kernel wakes a sleeper the moment a byte arrives.
  const bool sleep_at_once = sockets_only() && wanted_.spins <= kSpinsCrowdedSockets;
  if (!sleep_at_once && idle_ns < std::int64_t{budget_.yield_us} * 1000)
    sched_yield();
  else
    arm(stage);
  const bool slow = now - stage.slow_at_ns >= kSlowEveryNs;
  if (slow) stage.slow_at_ns = now;
  return slow;
}

// Spinning pays only while nobody else wants the core; what the facts at the start did not show
// (another job, a quota) shows in involuntary switches.
void Waiter::end_of_spinning() {
  const long switches = involuntary_switches();
  const bool interrupted = switches != switches_;
  switches_ = switches;
  crowded_ = std::clamp(crowded_ + (interrupted ? 1 : -1), 0, 2 * kCrowdedLimit);
  budget_.spins = crowded_ > kCrowdedLimit ? kSpinsCrowded : wanted_.spins;
}

void Waiter::set_budget(WaitBudget budget) {
  if (sockets_only() && budget.spins == kSpinsCrowded) budget.spins = kSpinsCrowdedSockets;
  budget_ = wanted_ = budget;
}

void Waiter::arm(Stage& stage) {
  stage.armed = true;
  if (bell_ == &own_bell_ && !sockets_only()) bell_->announce();
  for (Wire* wire : wires_) wire->arm();
}

bool Waiter::sleep(Stage& stage, const Deadline& deadline) {
  const std::int64_t for_ns = std::min(kSlowEveryNs, deadline.left_ns());
  stage.expired = for_ns == 0;
  if (stage.expired) return true;
  stage.slow_at_ns = 0;
  if (epoll_fd_ < 0) return bell_->sleep(for_ns);
  epoll_event event;
  // Rounded up: a deadline in less than a millisecond must not become a busy loop.
  const int n = epoll_wait(epoll_fd_, &event, 1, static_cast<int>((for_ns + 999'999) / 1'000'000));
  rung_ = n > 0 && event.data.fd == event_fd_;
  return n > 0;
}

void Waiter::disarm(Stage& stage) {
  stage.armed = false;
  stage.turns = 0;
  stage.idle_since_ns = 0;
  stage.spun = false;
  if (bell_ == &own_bell_ && !sockets_only()) bell_->awake();
  for (Wire* wire : wires_) wire->disarm();
  if (!rung_) return;
  rung_ = false;
  std::uint64_t count;
  [[maybe_unused]] const ssize_t n = read(event_fd_, &count, sizeof count);
}

void Waiter::wake() {
  if (event_fd_ >= 0) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = write(event_fd_, &one, sizeof one);
  } else {
    bell_->ring_strictly(-1);
  }
}

}  // namespace rlx
