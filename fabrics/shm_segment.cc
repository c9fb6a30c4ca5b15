// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/shm_segment.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "fabrics/host.h"

namespace rlx {
namespace {

// Segments this process owns, by descriptor. The pid tells a forked child that they are not its.
struct Owned {
  std::mutex mutex;
  std::map<std::pair<pid_t, int>, std::weak_ptr<Segment>> by_fd;
};

Owned& owned() {
  static Owned the;
  return the;
}

// Maps at a multiple of the huge page: only there can the kernel use one.
Result<std::byte*> map_aligned(int fd, std::size_t n_bytes) {
  const std::size_t room = n_bytes + Segment::kHugeBytes;
  void* const reserved =
      mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return fail_errno(fmt::format("cannot reserve {} bytes", room));
  const auto start = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t at = (start + Segment::kHugeBytes - 1) & ~(Segment::kHugeBytes - 1);
  void* const data = mmap(reinterpret_cast<void*>(at), n_bytes, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_FIXED, fd, 0);
  if (data == MAP_FAILED) {
    const int why = errno;
    munmap(reserved, room);
    return fail_errno(why, fmt::format("cannot map {} bytes of shared memory", n_bytes));
  }
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t end = (at + n_bytes + page - 1) & ~(page - 1);
  if (at > start) munmap(reserved, at - start);
  if (start + room > end) munmap(reinterpret_cast<void*>(end), start + room - end);
  return static_cast<std::byte*>(data);
}

// Takes all pages now. ENOSPC and ENOMEM both mean that there are not enough.
Status take_pages(int fd, std::size_t n_bytes) {
  const std::uint64_t available = available_memory();
  // fallocate takes page after page: asked for too much it would bring the machine down first.
  if (n_bytes > available - available / 16)
    return fail(Code::kNoMemory,
                fmt::format("no memory for {} more bytes that peers can read: {} are available",
                            n_bytes, available));
  int failed = 0;
  do failed = fallocate(fd, 0, 0, static_cast<off_t>(n_bytes)) != 0 ? errno : 0;
  while (failed == EINTR);
  if (failed == 0) return {};
  return fail(Code::kNoMemory,
              fmt::format("no memory for {} more bytes that peers can read", n_bytes));
}

Result<int> sized_memfd(std::size_t n_bytes, unsigned flags) {
  const int fd = memfd_create("rlx", MFD_CLOEXEC | flags);
  if (fd < 0) return fail_errno("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(n_bytes)) == 0) return fd;
  const int why = errno;
  close(fd);
  return fail_errno(why, fmt::format("cannot make {} bytes of shared memory", n_bytes));
}

// Reserved huge pages, if the administrator set some aside and enough are free.
Result<int> reserved_huge_memfd(std::size_t n_bytes) {
  RLX_TRY_ASSIGN(const int fd, sized_memfd(n_bytes, MFD_HUGETLB | MFD_HUGE_2MB));
  if (fallocate(fd, 0, 0, static_cast<off_t>(n_bytes)) == 0) return fd;
  const int why = errno;
  close(fd);
  return fail_errno(why, "no reserved huge pages");
}

}  // namespace

Result<int> open_of_process(pid_t owner, int fd, int flags) {
  const std::string path = fmt::format("/proc/{}/fd/{}", owner, fd);
  const int ours = open(path.c_str(), flags | O_CLOEXEC);
  if (ours >= 0) return ours;
  const int why = errno;
  return fail(Code::kUnreachable, fail_errno(why, "cannot open " + path).value().text);
}

Result<std::shared_ptr<Segment>> Segment::create(std::size_t n_bytes, Pages pages) {
  Result<int> fd = fail(Code::kUnsupported, "");
  bool taken = false;
  if (pages == Pages::kHugeTaken && n_bytes % kHugeBytes == 0) {
    fd = reserved_huge_memfd(n_bytes);
    taken = fd.has_value();
  }
  if (!fd) fd = sized_memfd(n_bytes, 0);
  if (!fd) return tl::unexpected(std::move(fd.error()));
  Result<std::byte*> data = map_aligned(*fd, n_bytes);
  if (!data) {
    close(*fd);
    return tl::unexpected(std::move(data.error()));
  }
  std::shared_ptr<Segment> segment(new Segment(*data, n_bytes, *fd));
  if (pages != Pages::kSmall) madvise(*data, n_bytes, MADV_HUGEPAGE);
  if (pages == Pages::kHugeTaken && !taken) RLX_TRY(take_pages(*fd, n_bytes));
  const std::lock_guard lock(owned().mutex);
  owned().by_fd[{getpid(), *fd}] = segment;
  return segment;
}

Result<std::shared_ptr<Segment>> Segment::attach(pid_t owner, int fd, std::size_t n_bytes,
                                                 Pages pages) {
  if (owner == getpid()) {
    const std::lock_guard lock(owned().mutex);
    const auto found = owned().by_fd.find({owner, fd});
    auto segment = found == owned().by_fd.end() ? nullptr : found->second.lock();
    if (segment == nullptr || segment->n_bytes() != n_bytes)
      return fail(Code::kUnreachable, fmt::format("descriptor {} is no shared memory", fd));
    return segment;
  }
  RLX_TRY_ASSIGN(const int ours, open_of_process(owner, fd, O_RDWR));
  struct stat info;
  if (fstat(ours, &info) != 0 || static_cast<std::size_t>(info.st_size) < n_bytes) {
    close(ours);
    return fail(Code::kUnreachable,
                fmt::format("/proc/{}/fd/{} is not what rank's address said", owner, fd));
  }
  Result<std::byte*> data = map_aligned(ours, n_bytes);
  close(ours);
  if (!data) return tl::unexpected(std::move(data.error()));
  if (pages != Pages::kSmall) madvise(*data, n_bytes, MADV_HUGEPAGE);
  return std::shared_ptr<Segment>(new Segment(*data, n_bytes, -1));
}

Segment::~Segment() {
  if (fd_ >= 0) {
    const std::lock_guard lock(owned().mutex);
    owned().by_fd.erase({getpid(), fd_});
    close(fd_);
  }
  munmap(data_, n_bytes_);
}

Status read_of_process(pid_t pid, RemoteSpan from, void* to) {
  std::uint64_t n_done = 0;
  while (n_done < from.n_bytes) {
    iovec here{static_cast<char*>(to) + n_done, from.n_bytes - n_done};
    iovec there{reinterpret_cast<void*>(from.address + n_done), from.n_bytes - n_done};
    const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    if (n <= 0) return fail_errno(fmt::format("cannot read memory of process {}", pid));
    n_done += static_cast<std::uint64_t>(n);
  }
  return {};
}

}  // namespace rlx
