// SPDX-License-Identifier: MIT OR Apache-2.0
// Moves work from libpmix's threads, timers and sockets to the one thread that calls run().
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "base/result.h"

namespace rlx::pmix {

class Shift {
 public:
  using Work = std::function<void()>;
  using TimerId = std::pair<int64_t, uint64_t>;  // when, and a number that makes it unique

  Shift() = default;
  ~Shift();
  Shift(const Shift&) = delete;
  Shift& operator=(const Shift&) = delete;
  Status open();

  // From any thread.
  void post(Work work);

  // From the thread that calls run().
  TimerId after_ms(int64_t ms, Work work);
  void cancel(TimerId id);
  Status watch(int fd, Work readable);
  void unwatch(int fd);
  int fd() const { return epoll_fd_; }  // readable when run() has work
  void run();                           // what is ready now; never blocks

 private:
  void arm();
  void run_timers();
  void run_posted();

  int epoll_fd_ = -1, event_fd_ = -1, timer_fd_ = -1;
  std::mutex mutex_;  // guards posted_
  std::deque<Work> posted_;
  std::map<TimerId, Work> timers_;
  uint64_t next_timer_ = 0;
  std::map<int, Work> watched_;
};

}  // namespace rlx::pmix
