// SPDX-License-Identifier: MIT OR Apache-2.0
// Writes to one descriptor on a thread of its own: a slow or stopped reader of rlxrun's output must
// not stop it from reaping ranks and hearing signals, and the descriptor, which others may share,
// stays in blocking mode.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "launcher/loop.h"

namespace rlx::launcher {

class Writer {
 public:
  struct Settled {
    std::uint64_t key;
    std::size_t taken;
  };
  // On the loop's thread: pieces that were written or, after a failure, dropped.
  using OnSettled = std::function<void(const std::vector<Settled>&)>;
  // Once, on the loop's thread, with errno.
  using OnFailure = std::function<void(int error)>;

  Writer(Loop& loop, int fd, OnSettled on_settled, OnFailure on_failure);
  ~Writer();  // gives up what is not written
  void push(std::string bytes, std::uint64_t key, std::size_t taken);
  bool is_idle() const { return n_pushed_ == n_settled_; }

 private:
  struct Piece {
    std::string bytes;
    Settled settled;
  };
  struct Shared;
  // Writes at once what cannot block; returns how much that was.
  std::size_t write_now(const std::string& bytes);
  static void work(std::shared_ptr<Shared> shared);
  void settle();

  std::shared_ptr<Shared> shared_;  // outlives us when the thread is stuck in a write
  OnSettled on_settled_;
  OnFailure on_failure_;
  Watch wake_;
  std::uint64_t n_pushed_ = 0, n_settled_ = 0;
  bool started_ = false, failed_ = false;
  bool is_pipe_ = false, never_blocks_ = false;
};

}  // namespace rlx::launcher
