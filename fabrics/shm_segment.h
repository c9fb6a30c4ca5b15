// SPDX-License-Identifier: MIT OR Apache-2.0
// A piece of shared memory: a memfd of its owner, opened by peers through /proc/PID/fd/FD. No
// name, so nothing is left behind however a process ends. Within one process (ranks as threads) all
// share the owner's mapping.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "base/result.h"
#include "fabrics/wire.h"

namespace rlx {

class Segment {
 public:
  enum class Pages {
    kSmall,      // the system's page, taken when first touched
    kHuge,       // 2 MiB pages where the system gives them, taken when first touched
    kHugeTaken,  // as kHuge, and taken before create() returns: no memory is kNoMemory
  };
  static constexpr std::size_t kHugeBytes = std::size_t{2} << 20;

  static Result<std::shared_ptr<Segment>> create(std::size_t n_bytes, Pages pages);
  // kUnreachable if the owner's descriptor cannot be opened from here or is smaller.
  static Result<std::shared_ptr<Segment>> attach(pid_t owner, int fd, std::size_t n_bytes,
                                                 Pages pages);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* data() const { return data_; }
  std::size_t n_bytes() const { return n_bytes_; }
  int fd() const { return fd_; }  // the owner's; -1 in a peer

 private:
  Segment(std::byte* data, std::size_t n_bytes, int fd) : data_(data), n_bytes_(n_bytes), fd_(fd) {}
  std::byte* data_;
  std::size_t n_bytes_;
  int fd_;
};

// Opens what `owner` has open as `fd`, for reading and writing or (a pipe) for writing.
Result<int> open_of_process(pid_t owner, int fd, int flags);

// Copies memory of process `pid` that nobody shares; kSystem if the system does not let us.
Status read_of_process(pid_t pid, RemoteSpan from, void* to);

}  // namespace rlx
