// SPDX-License-Identifier: MIT OR Apache-2.0
// A job of two ranks whose counts and bytes do not fit in 32 bits, signed or not. Not in the suite:
// it wants 5 GiB a rank and a minute. `make check-large` runs it over shared memory and over TCP.
#include <rlx/rlx.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

namespace {

constexpr std::uint64_t kHalf = (std::uint64_t{1} << 31) + 5, kCount = 2 * kHalf;

int g_rank = 0;

unsigned char byte_of(std::uint64_t i, int rank) {
  return static_cast<unsigned char>(i * 7 + (i >> 31) * 3 + (i >> 12) +
                                    static_cast<unsigned>(rank));
}

void fill(unsigned char* data, std::uint64_t n, int rank) {
  for (std::uint64_t i = 0; i < n; ++i) data[i] = byte_of(i, rank);
}

void must(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "rank %d: %s: %s\n", g_rank, what, rlx_error_text());
  std::exit(1);
}

// data[i] is what `want` says for all n.
template <class Want>
void expect(const char* what, const unsigned char* data, std::uint64_t n, Want&& want) {
  for (std::uint64_t i = 0; i < n; ++i)
    if (data[i] != want(i)) {
      std::fprintf(stderr, "rank %d: %s: byte %llu is %u, wanted %u\n", g_rank, what,
                   static_cast<unsigned long long>(i), data[i], want(i));
      std::exit(1);
    }
  if (g_rank == 0) std::printf("ok %s\n", what), std::fflush(stdout);
}

}  // namespace

int main() {
  must(rlx_init() == RLX_SUCCESS, "init");
  const rlx_comm world = rlx_world();
  g_rank = rlx_comm_rank(world);
  must(rlx_comm_size(world) == 2, "two ranks are wanted");
  const std::unique_ptr<unsigned char[]> memory(new unsigned char[kCount]);
  unsigned char* const data = memory.get();
  const int peer = 1 - g_rank;

  fill(data, kCount, g_rank);
  must(rlx_all_reduce(data, data, kCount, RLX_U8, RLX_SUM, RLX_FAST, world) == 0, "all_reduce");
  expect("all_reduce", data, kCount,
         [](std::uint64_t i) { return static_cast<unsigned char>(byte_of(i, 0) + byte_of(i, 1)); });

  fill(data, kCount, g_rank);
  must(rlx_broadcast(data, kCount, RLX_I8, 1, world) == 0, "broadcast");
  expect("broadcast", data, kCount, [](std::uint64_t i) { return byte_of(i, 1); });

  fill(data + g_rank * kHalf, kHalf, g_rank);
  must(rlx_all_gather(data + g_rank * kHalf, data, kHalf, RLX_U8, world) == 0, "all_gather");
  expect("all_gather", data, kCount,
         [](std::uint64_t i) { return i < kHalf ? byte_of(i, 0) : byte_of(i - kHalf, 1); });

  fill(data, kCount, g_rank);
  if (g_rank == 0)
    must(rlx_send(data, kCount, RLX_U8, peer, 3, world) == 0, "send");
  else
    must(rlx_recv(data, kCount, RLX_U8, peer, 3, world, nullptr) == 0, "recv");
  expect("message", data, kCount, [](std::uint64_t i) { return byte_of(i, 0); });

  // Not in place: half the size each way.
  constexpr std::uint64_t kBlock = kHalf / 2;
  fill(data, 2 * kBlock, g_rank);
  unsigned char* const out = data + 2 * kBlock;
  must(rlx_all_to_all(data, out, kBlock, RLX_U8, world) == 0, "all_to_all");
  expect("all_to_all", out, 2 * kBlock, [](std::uint64_t i) {
    const auto block = static_cast<std::uint64_t>(g_rank) * kBlock;
    return i < kBlock ? byte_of(block + i, 0) : byte_of(block + i - kBlock, 1);
  });

  must(rlx_finalize() == RLX_SUCCESS, "finalize");
  return 0;
}
