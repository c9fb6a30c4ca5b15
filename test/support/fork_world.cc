// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/support/fork_world.h"

#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>
#include <mutex>
#include <thread>

namespace rlx::test {
namespace {

constexpr std::size_t kMaxBlob = 8192;

struct Slot {
  std::atomic<std::uint32_t> n_blob;
  std::atomic<std::uint32_t> dead;
  char blob[kMaxBlob];
};

// In memory that all ranks share; zero is the initial state.
struct Shared {
  std::atomic<std::uint32_t> arrived;  // of the current meeting
  std::atomic<std::uint32_t> round;    // meetings that ended
  std::atomic<std::uint32_t> events;   // grows with every death and when a rank stops watching
  Slot slots[];
};

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t timeout_ns) {
  const timespec ts{timeout_ns / 1000000000, timeout_ns % 1000000000};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &ts, nullptr, 0);
}

void futex_wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

class SharedMapping {
 public:
  explicit SharedMapping(int n_ranks) : n_bytes_(sizeof(Shared) + n_ranks * sizeof(Slot)) {
    void* memory =
        mmap(nullptr, n_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("cannot map memory for the test world");
    shared_ = static_cast<Shared*>(memory);
  }
  ~SharedMapping() { munmap(shared_, n_bytes_); }
  SharedMapping(const SharedMapping&) = delete;
  SharedMapping& operator=(const SharedMapping&) = delete;
  Shared& operator*() const { return *shared_; }
  Shared* operator->() const { return shared_; }

 private:
  std::size_t n_bytes_;
  Shared* shared_;
};

class MemoryBootstrap final : public Bootstrap {
 public:
  MemoryBootstrap(Shared& shared, int rank, int n_ranks, const WorldOptions& options)
      : shared_(shared) {
    facts_.rank = rank;
    facts_.size = n_ranks;
    facts_.source = "test";
    facts_.job_id = fmt::format("test-{}", static_cast<const void*>(&shared));
    facts_.hostname = "testhost";
    for (int r = 0; options.know_locals && r < n_ranks; ++r) facts_.local_ranks.push_back(r);
  }
  ~MemoryBootstrap() override {
    if (!watcher_.joinable()) return;
    stop_ = true;
    shared_.events.fetch_add(1);
    futex_wake_all(shared_.events);
    watcher_.join();
  }

  const BootstrapFacts& facts() const override { return facts_; }

  Status put(std::string_view blob) override {
    if (blob.size() > kMaxBlob) return fail(Code::kInvalid, "blob too long for the test world");
    Slot& slot = shared_.slots[facts_.rank];
    std::memcpy(slot.blob, blob.data(), blob.size());
    slot.n_blob.store(blob.size());
    return {};
  }

  Status fence(Deadline deadline) override {
    const std::uint32_t round = shared_.round.load();
    if (shared_.arrived.fetch_add(1) + 1 == static_cast<std::uint32_t>(facts_.size)) {
      shared_.arrived.store(0);
      shared_.round.fetch_add(1);
      futex_wake_all(shared_.round);
      return {};
    }
    while (shared_.round.load() == round) {
      for (int r = 0; r < facts_.size; ++r)
        if (shared_.slots[r].dead.load())
          return fail(Code::kPeerFailed, fmt::format("rank {} is gone", r));
      if (deadline.passed()) return fail(Code::kTimeout, "fence of the test world");
      futex_wait(shared_.round, round, std::min<std::int64_t>(deadline.left_ns(), 100000000));
    }
    return {};
  }

  Result<std::string> get(int rank) override {
    Slot& slot = shared_.slots[rank];
    return std::string(slot.blob, slot.n_blob.load());
  }

  [[noreturn]] void abort(int exit_code, std::string_view why) override {
    fmt::print(stderr, "rank {} aborts: {}\n", facts_.rank, why);
    _exit(exit_code);
  }

  Status finalize(Deadline deadline) override { return fence(deadline); }

  void watch(std::function<void(int, std::string)> on_failure) override {
    watcher_ = std::thread([this, on_failure = std::move(on_failure)] {
      std::vector<bool> told(facts_.size, false);
      while (!stop_) {
        const std::uint32_t events = shared_.events.load();
        for (int r = 0; r < facts_.size; ++r)
          if (shared_.slots[r].dead.load() && !told[r]) {
            told[r] = true;
            on_failure(r, "its process ended");
          }
        if (!stop_) futex_wait(shared_.events, events, 1000000000);
      }
    });
  }

 private:
  Shared& shared_;
  BootstrapFacts facts_;
  std::atomic<bool> stop_{false};
  std::thread watcher_;
};

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {}", WTERMSIG(status));
  return fmt::format("exited with {}", WEXITSTATUS(status));
}

[[noreturn]] void run_child(Shared& shared, int rank, int n_ranks, const RankBody& body,
                            const WorldOptions& options, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(3);
  int code = 0;
  try {
    MemoryBootstrap bootstrap(shared, rank, n_ranks, options);
    body(bootstrap);
  } catch (const std::exception& error) {
    fmt::print(stderr, "rank {}: {}\n", rank, error.what());
    code = 1;
  }
  std::fflush(nullptr);
  _exit(code);
}

// The forked ranks, seen from the parent.
class Children {
 public:
  Children(int n_ranks, Shared& shared, const WorldOptions& options)
      : shared_(shared), options_(options), pids_(n_ranks, -1), fds_(n_ranks) {}
  ~Children() { kill_all(); }

  void add(int rank, pid_t pid) {
    pids_[rank] = pid;
    fds_[rank] = {static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  }

  WorldResult wait() {
    result_.ok = true;
    result_.status.assign(pids_.size(), 0);
    const Deadline deadline = Deadline::after_ms(options_.timeout_ms);
    while (std::any_of(pids_.begin(), pids_.end(), [](pid_t pid) { return pid > 0; })) {
      poll(fds_.data(), fds_.size(), static_cast<int>(deadline.left_ns() / 1000000) + 1);
      for (std::size_t r = 0; r < pids_.size(); ++r)
        if (pids_[r] > 0 && fds_[r].revents) reap(static_cast<int>(r));
      if (result_.ok && deadline.passed()) {
        result_.ok = false;
        result_.text = fmt::format("the ranks did not end within {} ms", options_.timeout_ms);
      }
      if (!result_.ok) kill_all();
    }
    return result_;
  }

 private:
  void reap(int rank) {
    waitpid(pids_[rank], &result_.status[rank], 0);
    pids_[rank] = -1;
    close(fds_[rank].fd);
    fds_[rank].fd = -1;
    const int status = result_.status[rank];
    if (status == 0) return;
    const auto& expected = options_.expect_dead;
    if (std::find(expected.begin(), expected.end(), rank) == expected.end()) {
      if (result_.ok) result_.text = fmt::format("rank {} {}", rank, describe_status(status));
      result_.ok = false;
    }
    if (!options_.report_deaths) return;
    shared_.slots[rank].dead.store(1);
    shared_.events.fetch_add(1);
    futex_wake_all(shared_.events);
    futex_wake_all(shared_.round);
  }

  void kill_all() {
    for (std::size_t r = 0; r < pids_.size(); ++r) {
      if (pids_[r] <= 0) continue;
      kill(pids_[r], SIGKILL);
      int status = 0;
      waitpid(pids_[r], result_.status.empty() ? &status : &result_.status[r], 0);
      close(fds_[r].fd);
      fds_[r].fd = -1;
      pids_[r] = -1;
    }
  }

  Shared& shared_;
  const WorldOptions& options_;
  std::vector<pid_t> pids_;
  std::vector<pollfd> fds_;
  WorldResult result_;
};

}  // namespace

WorldResult fork_world(int n_ranks, const RankBody& body, const WorldOptions& options) {
  SharedMapping shared(n_ranks);
  Children children(n_ranks, *shared, options);
  const pid_t parent = getpid();
  std::fflush(nullptr);
  for (int rank = 0; rank < n_ranks; ++rank) {
    const pid_t pid = fork();
    if (pid < 0) return {false, "fork failed", {}};
    if (pid == 0) run_child(*shared, rank, n_ranks, body, options, parent);
    children.add(rank, pid);
  }
  return children.wait();
}

WorldResult thread_world(int n_ranks, const RankBody& body, const WorldOptions& options) {
  SharedMapping shared(n_ranks);
  WorldResult result{true, {}, std::vector<int>(n_ranks, 0)};
  std::mutex mutex;
  std::atomic<std::uint32_t> n_ended{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        MemoryBootstrap bootstrap(*shared, rank, n_ranks, options);
        body(bootstrap);
      } catch (const std::exception& error) {
        const std::lock_guard lock(mutex);
        if (result.ok) result.text = fmt::format("rank {}: {}", rank, error.what());
        result.ok = false;
      }
      n_ended.fetch_add(1);
      futex_wake_all(n_ended);
    });
  const Deadline deadline = Deadline::after_ms(options.timeout_ms);
  for (std::uint32_t seen; (seen = n_ended.load()) != static_cast<std::uint32_t>(n_ranks);) {
    futex_wait(n_ended, seen, std::min<std::int64_t>(deadline.left_ns(), 100000000));
    if (!deadline.passed()) continue;
    const std::lock_guard lock(mutex);
    fmt::print(stderr, "{} of {} ranks did not end within {} ms; {}\n", n_ranks - seen, n_ranks,
               options.timeout_ms, result.text);
    std::_Exit(1);
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

std::atomic<int>& shared_number() {
  void* const page =
      mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) throw std::runtime_error("cannot map memory for the test world");
  return *new (page) std::atomic<int>(0);
}

}  // namespace rlx::test
