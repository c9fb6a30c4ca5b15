// SPDX-License-Identifier: MIT OR Apache-2.0
// Collectives between real ranks: every algorithm with every type and operation, over shared memory
// and over TCP alone, with more ranks than cores, several calls under way at once.
#include <criterion/criterion.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "coll/algorithm.h"
#include "fabrics/shm.h"
#include "kernels/exact.h"
#include "test/coll/oracle.h"
#include "test/coll/station.h"
#include "test/support/fork_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

void expect_world(const WorldResult& result, const std::string& what) {
  cr_assert(result.ok, "%s: %s", what.c_str(), result.text.c_str());
}

// Memory of a rank that goes back when the call is over.
class Buffer {
 public:
  Buffer(Station& station, std::uint64_t n_bytes, bool pooled)
      : station_(station), own_(n_bytes + 64) {
    memory_ = own_.data();
    if (!pooled || station.endpoint().shm() == nullptr || n_bytes == 0) return;
    auto memory = station.endpoint().shm()->pool_alloc(n_bytes);
    if (!memory) throw RankFailed(memory.error().text);
    pool_ = *memory;
    memory_ = static_cast<std::byte*>(pool_);
  }
  ~Buffer() {
    if (pool_ != nullptr) (void)station_.endpoint().shm()->pool_free(pool_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  std::byte* data() { return memory_; }

 private:
  Station& station_;
  std::vector<std::byte> own_;
  void* pool_ = nullptr;
  std::byte* memory_;
};

void run_case(Station& station, Collectives& comm, const Case& c, bool pooled,
              const std::string& what) {
  const std::vector<std::byte> bytes = before(c, station.rank()), want = after(c, station.rank());
  Buffer buffer(station, bytes.size(), pooled);
  if (!bytes.empty()) std::memcpy(buffer.data(), bytes.data(), bytes.size());
  BoundCall bound;
  bind_call(bound, c, station.rank(), buffer.data());
  const Status status = comm.run(bound.call, Deadline::after_ms(60000));
  RLX_EXPECT(status.has_value(), "{}, {}: {}", what, to_string(c), status.error().text);
  RLX_EXPECT(want.empty() || std::memcmp(want.data(), buffer.data(), want.size()) == 0,
             "{}, {}: wrong bytes", what, to_string(c));
}

// Every type with every operation it takes, in turns through the modes.
void run_types(Station& station, Collectives& comm, const Algorithm& algorithm,
               const std::string& what) {
  int turn = 0;
  for (int t = 0; t < kDtypeCount; ++t)
    for (int o = 0; o < kOpCount; ++o) {
      Case c{.coll = algorithm.coll, .dtype = static_cast<Dtype>(t), .n_ranks = station.size()};
      c.op = static_cast<Op>(o);
      if (!op_applies(c.op, c.dtype) || (!reduces(c.coll) && o > 0)) continue;
      ++turn;
      c.salt = turn;
      c.root = turn % station.size();
      c.count = static_cast<std::uint64_t>(turn % 3 == 0 ? 5 : turn % 3 == 1 ? 333 : 12345);
      c.in_place = turn % 2 == 0;
      c.mode = static_cast<Mode>(turn % 3);
      run_case(station, comm, c, turn % 4 < 2, what);
    }
}

void run_all_algorithms(const std::string& fabrics, int n_ranks, bool as_threads) {
  const auto body = [&](Bootstrap& bootstrap) {
    Station station(bootstrap, fabrics);
    for (const Algorithm* algorithm : algorithms()) {
      const std::string rule = fmt::format("{} -> {}", name_of(algorithm->coll), algorithm->name);
      Collectives& comm = station.communicator(rule, n_ranks > 2 ? 2 : 64);
      run_types(station, comm, *algorithm, rule);
    }
    station.meet();
  };
  const WorldOptions options{.timeout_ms = 200000};
  expect_world(
      as_threads ? thread_world(n_ranks, body, options) : fork_world(n_ranks, body, options),
      fmt::format("{} ranks over {}", n_ranks, fabrics));
}

}  // namespace

Test(collectives, give_the_right_bytes_in_shared_memory, .timeout = 300) {
  for (const int n : {1, 2, 3, 4, 8}) run_all_algorithms("self,shm", n, false);
}

Test(collectives, give_the_right_bytes_over_tcp_alone, .timeout = 300) {
  for (const int n : {2, 3, 4}) run_all_algorithms("self,tcp", n, false);
}

Test(collectives, give_the_right_bytes_between_threads, .timeout = 300) {
  run_all_algorithms("self,shm", 3, true);
}

// Calls are started on two communicators in an order that differs by rank between them, and waited
// for in yet another one.
Test(collectives, do_not_mix_when_many_are_under_way, .timeout = 200) {
  for (const char* fabrics : {"self,shm", "self,tcp"}) {
    const auto body = [fabrics](Bootstrap& bootstrap) {
      Station station(bootstrap, fabrics);
      Collectives* comms[] = {&station.communicator(), &station.communicator("", 1)};
      std::mt19937 same(5), own(static_cast<unsigned>(station.rank()));
      for (int round = 0; round < 20; ++round) {
        struct Running {
          Case c;
          std::unique_ptr<Buffer> buffer;
          BoundCall bound;
          Request* request = nullptr;
          std::vector<std::byte> want;
        };
        std::vector<Running> running[2];
        for (auto& list : running) {
          list.resize(4);
          for (Running& run : list) {
            Case& c = run.c;
            c.n_ranks = station.size();
            c.coll = static_cast<Coll>(same() % kCollCount);
            c.root = static_cast<int>(same() % static_cast<unsigned>(c.n_ranks));
            c.count = same() % (1U << (same() % 15));
            c.salt = static_cast<int>(same() % 100);
            c.in_place = same() % 2 == 0;
            const std::vector<std::byte> bytes = before(c, station.rank());
            run.want = after(c, station.rank());
            run.buffer = std::make_unique<Buffer>(station, bytes.size(), same() % 2 == 0);
            if (!bytes.empty()) std::memcpy(run.buffer->data(), bytes.data(), bytes.size());
            bind_call(run.bound, c, station.rank(), run.buffer->data());
          }
        }
        for (std::size_t started[2] = {}; started[0] + started[1] < 8;) {
          const std::size_t side = started[0] == 4 ? 1 : started[1] == 4 ? 0 : own() % 2;
          Running& run = running[side][started[side]++];
          run.request = comms[side]->start(run.bound.call);
        }
        std::vector<Running*> order;
        for (auto& list : running)
          for (Running& run : list) order.push_back(&run);
        std::shuffle(order.begin(), order.end(), own);
        for (Running* run : order) {
          RLX_EXPECT_OK(station.engine().wait(run->request, Deadline::after_ms(60000)));
          run->request->release();
          RLX_EXPECT(run->want.empty() ||
                         std::memcmp(run->want.data(), run->buffer->data(), run->want.size()) == 0,
                     "round {}: {}: wrong bytes", round, to_string(run->c));
        }
      }
      station.meet();
    };
    expect_world(fork_world(4, body, {.timeout_ms = 100000}), fabrics);
  }
}

// The exact sum of P inputs is the same whatever carries it, and that of the kernel alone.
Test(collectives, give_the_same_exact_bits_by_every_algorithm, .timeout = 300) {
  for (int n = 1; n <= 8; ++n)
    for (const char* fabrics : {"self,shm", "self,tcp"}) {
      const auto body = [fabrics](Bootstrap& bootstrap) {
        Station station(bootstrap, fabrics);
        for (const std::size_t count : {7, 3000, 20000}) {
          std::vector<std::vector<float>> leaves(static_cast<std::size_t>(station.size()));
          for (std::size_t r = 0; r < leaves.size(); ++r) {
            std::mt19937 random(static_cast<unsigned>(r + count));
            for (std::size_t i = 0; i < count; ++i)
              leaves[r].push_back(std::ldexp(static_cast<float>(random()) / 3e9F - 0.7F,
                                             static_cast<int>(random() % 60) - 30));
          }
          std::vector<float> want(count), got(count);
          std::vector<const void*> sources;
          for (const auto& leaf : leaves) sources.push_back(leaf.data());
          void* const to[] = {want.data()};
          kernels::exact_sum_n(Dtype::f32, to, sources, count);
          for (const Algorithm* algorithm : algorithms()) {
            if (algorithm->coll != Coll::all_reduce) continue;
            Collectives& comm = station.communicator(fmt::format("* -> {}", algorithm->name), 2);
            RLX_EXPECT_OK(comm.run({.coll = Coll::all_reduce,
                                    .dtype = Dtype::f32,
                                    .mode = Mode::exact,
                                    .count = count,
                                    .in = leaves[static_cast<std::size_t>(station.rank())].data(),
                                    .out = got.data()},
                                   Deadline::after_ms(60000)));
            RLX_EXPECT(std::memcmp(want.data(), got.data(), count * sizeof(float)) == 0,
                       "{} differs, count {}", algorithm->name, count);
          }
        }
        station.meet();
      };
      expect_world(fork_world(n, body, {.timeout_ms = 100000}),
                   fmt::format("{} ranks over {}", n, fabrics));
    }
}
