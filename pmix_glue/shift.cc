// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/shift.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

namespace rlx::pmix {
namespace {

// Reading the counter once resets it.
void drain(int fd) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(fd, &count, sizeof count);
}

Status add(int epoll_fd, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  if (::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
    return fail_errno("cannot watch a descriptor");
  return {};
}

}  // namespace

Status Shift::open() {
  epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
  event_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  timer_fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (epoll_fd_ < 0 || event_fd_ < 0 || timer_fd_ < 0)
    return fail_errno("cannot open an event descriptor");
  RLX_TRY(add(epoll_fd_, event_fd_));
  return add(epoll_fd_, timer_fd_);
}

Shift::~Shift() {
  for (const int fd : {epoll_fd_, event_fd_, timer_fd_})
    if (fd >= 0) ::close(fd);
}

void Shift::post(Work work) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(work));
  const uint64_t one = 1;
  // It can only fail when the counter is full, and then it is readable anyway.
  [[maybe_unused]] const ssize_t written = ::write(event_fd_, &one, sizeof one);
}

Shift::TimerId Shift::after_ms(int64_t ms, Work work) {
  const TimerId id{now_ns() + ms * 1000000, next_timer_++};
  timers_.emplace(id, std::move(work));
  arm();
  return id;
}

void Shift::cancel(TimerId id) {
  if (timers_.erase(id) > 0) arm();
}

void Shift::arm() {
  itimerspec when{};  // zero disarms
  if (!timers_.empty()) {
    const int64_t at = timers_.begin()->first.first;
    when.it_value.tv_sec = at / 1000000000;
    when.it_value.tv_nsec = at % 1000000000;
  }
  ::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &when, nullptr);
}

Status Shift::watch(int fd, Work readable) {
  RLX_TRY(add(epoll_fd_, fd));
  watched_[fd] = std::move(readable);
  return {};
}

void Shift::unwatch(int fd) {
  if (watched_.erase(fd) > 0) ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
}

void Shift::run_timers() {
  drain(timer_fd_);
  while (!timers_.empty() && timers_.begin()->first.first <= now_ns()) {
    const auto due = timers_.extract(timers_.begin());
    due.mapped()();
  }
  arm();
}

void Shift::run_posted() {
  drain(event_fd_);
  std::deque<Work> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (auto& item : work) item();
}

void Shift::run() {
  epoll_event events[32];
  const int n = ::epoll_wait(epoll_fd_, events, 32, 0);
  for (int i = 0; i < n; ++i) {
    const int fd = events[i].data.fd;
    if (fd == event_fd_) {
      run_posted();
    } else if (fd == timer_fd_) {
      run_timers();
    } else if (const auto it = watched_.find(fd); it != watched_.end()) {
      const Work readable = it->second;  // it may unwatch itself
      readable();
    }
  }
}

}  // namespace rlx::pmix
