// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages over every wire of the table.
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/fabrics/endpoint_bodies.h"
#include "test/fabrics/endpoint_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const char* const kFabrics[] = {"self,shm", "self,tcp"};

void check_world(const std::string& what, const WorldResult& result) {
  cr_assert(result.ok, "%s: %s", what.c_str(), result.text.c_str());
}

// The same as processes over each fabric, and as threads.
void everywhere(int n_ranks, const std::function<void(Endpoint&)>& body) {
  for (const char* fabrics : kFabrics)
    check_world(fmt::format("{} processes over {}", n_ranks, fabrics),
                fork_world(n_ranks, with_endpoint(body, fabrics)));
  check_world(fmt::format("{} threads", n_ranks), thread_world(n_ranks, with_endpoint(body)));
}

// n bytes of address space over and over the same few: large messages without large memory.
class Folded {
 public:
  static constexpr std::size_t kPeriod = std::size_t{64} << 20;

  explicit Folded(std::uint64_t n) : n_((n + kPeriod - 1) / kPeriod * kPeriod + kPeriod) {
    const int fd = memfd_create("folded", MFD_CLOEXEC);
    RLX_EXPECT(fd >= 0 && ftruncate(fd, kPeriod) == 0, "no memory");
    void* all = mmap(nullptr, n_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    RLX_EXPECT(all != MAP_FAILED, "no address space");
    const auto huge = std::uint64_t{2} << 20;
    start_ = static_cast<char*>(all);
    data_ =
        reinterpret_cast<char*>((reinterpret_cast<std::uint64_t>(all) + huge - 1) & ~(huge - 1));
    for (std::uint64_t at = 0; at + kPeriod < n_; at += kPeriod)
      mmap(data_ + at, kPeriod, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    madvise(data_, n_ - kPeriod, MADV_HUGEPAGE);
    close(fd);
  }
  ~Folded() { munmap(start_, n_); }
  Folded(const Folded&) = delete;
  Folded& operator=(const Folded&) = delete;
  char* data() const { return data_; }

 private:
  std::uint64_t n_;
  char* start_ = nullptr;
  char* data_ = nullptr;
};

void send_more_than_32_bits_count(Endpoint& ep) {
  constexpr std::uint64_t kN = (std::uint64_t{1} << 32) + 4097;
  Folded memory(kN);
  if (ep.rank() == 0) {
    fill(memory.data(), Folded::kPeriod, 5);
    return send(ep, 1, 1, memory.data(), kN);
  }
  Request* const r = ep.irecv(0, 1, kWholeTag, memory.data(), kN);
  RLX_EXPECT_OK(ep.wait(r, Deadline::after_ms(100000)));
  RLX_EXPECT(r->n_bytes == kN, "{}", r->n_bytes);
  r->release();
  const std::vector<char> want = pattern(Folded::kPeriod, 5);
  RLX_EXPECT(std::equal(want.begin(), want.end(), memory.data()), "wrong bytes");
}

}  // namespace

Test(endpoint, every_size_arrives_whole, .timeout = 200) {
  for (int n : {1, 2, 3}) everywhere(n, exchange_all_sizes);
  check_world("locals unknown",
              fork_world(2, with_endpoint(exchange_all_sizes), {.know_locals = false}));
}

Test(endpoint, the_pool_is_read_directly, .timeout = 200) {
  check_world("processes", fork_world(3, with_endpoint(exchange_in_the_pool)));
  check_world("threads", thread_world(2, with_endpoint(exchange_in_the_pool)));
}

Test(endpoint, messages_match_in_order_with_wildcards, .timeout = 200) {
  everywhere(4, match_in_order);
  everywhere(2, contexts_are_apart);
}

Test(endpoint, a_flood_is_held_back, .timeout = 200) {
  for (const char* fabrics : kFabrics)
    check_world(fabrics, fork_world(2, with_endpoint(survive_a_flood, fabrics)));
}

Test(endpoint, a_short_receive_is_truncated, .timeout = 200) {
  everywhere(2, truncate_on_the_receiver_only);
}

Test(endpoint, receives_are_cancelled_and_messages_probed, .timeout = 200) {
  everywhere(2, cancel_and_probe);
}

Test(endpoint, all_talk_to_all, .timeout = 200) {
  everywhere(4, storm);
  check_world("16 processes", fork_world(16, with_endpoint(storm)));
  check_world("9 threads", thread_world(9, with_endpoint(storm)));
}

Test(endpoint, a_message_may_be_longer_than_32_bits_count, .timeout = 200) {
  check_world("processes", fork_world(2, with_endpoint(send_more_than_32_bits_count, "self,shm"),
                                      {.timeout_ms = 150000}));
}
