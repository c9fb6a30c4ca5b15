// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/writer.h"

#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>

namespace rlx::launcher {

struct Writer::Shared {
  int fd = -1;
  Fd wake;
  std::mutex mutex;
  std::condition_variable work_to_do;
  std::deque<Piece> queue;
  std::vector<Settled> settled;
  int error = 0;
  bool stop = false;
};

Writer::Writer(Loop& loop, int fd, OnSettled on_settled, OnFailure on_failure)
    : shared_(std::make_shared<Shared>()),
      on_settled_(std::move(on_settled)),
      on_failure_(std::move(on_failure)) {
  shared_->fd = fd;
  struct stat info {};
  if (fstat(fd, &info) == 0) {
    is_pipe_ = S_ISFIFO(info.st_mode);
    never_blocks_ = S_ISREG(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(fd) == 0);
  }
  shared_->wake = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  wake_ = loop.on_readable(shared_->wake.get(), [this] { settle(); });
}

Writer::~Writer() {
  const std::lock_guard lock(shared_->mutex);
  shared_->stop = true;
  shared_->work_to_do.notify_one();
}

std::size_t Writer::write_now(const std::string& bytes) {
  if (!is_idle() || failed_) return 0;
  pollfd ready{shared_->fd, POLLOUT, 0};
  // A pipe that is writable takes this much at once.
  const bool fits =
      is_pipe_ && bytes.size() <= PIPE_BUF && poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT;
  if (!never_blocks_ && !fits) return 0;
  const ssize_t n = write(shared_->fd, bytes.data(), bytes.size());
  return n > 0 ? static_cast<std::size_t>(n)
               : 0;  // the thread will meet the same error and tell it
}

void Writer::push(std::string bytes, std::uint64_t key, std::size_t taken) {
  const std::size_t n_written = write_now(bytes);
  if (n_written == bytes.size()) return on_settled_({{key, taken}});
  bytes.erase(0, n_written);
  ++n_pushed_;
  const std::lock_guard lock(shared_->mutex);
  shared_->queue.push_back({std::move(bytes), {key, taken}});
  shared_->work_to_do.notify_one();
  if (!started_) std::thread(work, shared_).detach();  // all signals are blocked here, so there too
  started_ = true;
}

void Writer::settle() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto n = read(shared_->wake.get(), &count, sizeof count);
  std::vector<Settled> settled;
  int error = 0;
  {
    const std::lock_guard lock(shared_->mutex);
    settled.swap(shared_->settled);
    error = shared_->error;
  }
  n_settled_ += settled.size();
  if (error != 0 && !failed_) {
    failed_ = true;
    on_failure_(error);
  }
  if (!settled.empty()) on_settled_(settled);
}

namespace {

// 0, or errno.
int write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (n < 0 && errno == EAGAIN) {  // somebody else set O_NONBLOCK on what we share
      pollfd wait{fd, POLLOUT, 0};
      poll(&wait, 1, -1);
    } else if (n < 0 && errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

void Writer::work(std::shared_ptr<Shared> shared) {
  std::unique_lock lock(shared->mutex);
  while (true) {
    shared->work_to_do.wait(lock, [&] { return shared->stop || !shared->queue.empty(); });
    if (shared->stop) return;
    const Piece piece = std::move(shared->queue.front());
    shared->queue.pop_front();
    const bool failed = shared->error != 0;
    lock.unlock();
    const int error = failed ? 0 : write_all(shared->fd, piece.bytes);
    lock.lock();
    if (error != 0) shared->error = error;
    shared->settled.push_back(piece.settled);
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = write(shared->wake.get(), &one, sizeof one);
  }
}

}  // namespace rlx::launcher
