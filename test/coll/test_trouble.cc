// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls that cannot end well: different calls on different ranks, ranks that never come or die.
// Every rank gets an error that names what happened, soon, over every fabric.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "fabrics/shm.h"
#include "test/coll/station.h"
#include "test/support/command.h"
#include "test/support/fork_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr const char* kFabrics[] = {"self,shm", "self,tcp"};

Deadline soon() { return Deadline::after_ms(20000); }

void each_fabric(int n_ranks, const std::function<void(Station&)>& body,
                 const WorldOptions& options = {}) {
  for (const char* fabrics : kFabrics) {
    const WorldResult result = fork_world(
        n_ranks,
        [&](Bootstrap& bootstrap) {
          Station station(bootstrap, fabrics);
          body(station);
        },
        options);
    cr_assert(result.ok, "%s: %s", fabrics, result.text.c_str());
  }
}

struct Numbers {
  std::vector<std::int32_t> in = std::vector<std::int32_t>(100000, 1);
  std::vector<std::int32_t> out = std::vector<std::int32_t>(800000);
};

Call call_of(Numbers& numbers, Coll coll, std::uint64_t count, int root = 0) {
  return {.coll = coll,
          .dtype = Dtype::i32,
          .op = Op::sum,
          .root = root,
          .count = count,
          .in = numbers.in.data(),
          .out = coll == Coll::broadcast ? numbers.in.data() : numbers.out.data()};
}

struct Pair {
  const char* what;
  Call (*most)(Numbers&);
  Call (*odd)(Numbers&);  // what the last rank calls
  const char* most_text;
  const char* odd_text;
};

const Pair kPairs[] = {
    {"other collective", [](Numbers& n) { return call_of(n, Coll::all_reduce, 5); },
     [](Numbers& n) { return call_of(n, Coll::broadcast, 5, 1); },
     "all_reduce#2(count 5, i32, sum, fast)", "broadcast#2(count 5, i32, root 1)"},
    {"other count", [](Numbers& n) { return call_of(n, Coll::all_reduce, 40960); },
     [](Numbers& n) { return call_of(n, Coll::all_reduce, 40958); },
     "all_reduce#2(count 40960, i32, sum, fast)", "all_reduce#2(count 40958, i32, sum, fast)"},
    {"other root", [](Numbers& n) { return call_of(n, Coll::reduce, 3, 0); },
     [](Numbers& n) { return call_of(n, Coll::reduce, 3, 1); },
     "reduce#2(count 3, i32, sum, fast, root 0)", "reduce#2(count 3, i32, sum, fast, root 1)"},
    {"barrier against gather", [](Numbers& n) { return call_of(n, Coll::barrier, 0); },
     [](Numbers& n) { return call_of(n, Coll::gather, 70000, 0); }, "barrier#2",
     "gather#2(count 70000, i32, root 0)"},
};

}  // namespace

Test(trouble, of_different_calls_is_named_on_all_ranks, .timeout = 200) {
  for (const Pair& pair : kPairs)
    each_fabric(3, [&](Station& station) {
      Collectives& comm = station.communicator();
      Numbers numbers;
      RLX_EXPECT_OK(comm.run(call_of(numbers, Coll::all_reduce, 3), soon()));
      const bool odd = station.rank() == 2;
      Status status = comm.run(odd ? pair.odd(numbers) : pair.most(numbers), soon());
      // A rank whose part needed nobody may only learn of it in its next call.
      if (status) status = comm.run(call_of(numbers, Coll::barrier, 0), soon());
      RLX_EXPECT(!status && status.error().code == Code::kMismatch, "{} rank {}: {}", pair.what,
                 station.rank(), status ? "no error" : status.error().text);
      const std::string& text = status.error().text;
      RLX_EXPECT(text.find(pair.most_text) != std::string::npos &&
                     text.find(pair.odd_text) != std::string::npos &&
                     text.find("rank 2") != std::string::npos,
                 "{} rank {}: {}", pair.what, station.rank(), text);
      const Status later = comm.run(call_of(numbers, Coll::barrier, 0), soon());
      RLX_EXPECT(!later && later.error().code == Code::kMismatch, "later calls must fail");
      station.meet();
    });
}

// Who knows of a mismatch may end at once, and what it sent last with it.
Test(trouble, of_different_calls_is_named_though_ranks_leave_with_their_error, .timeout = 200) {
  const Pair pairs[] = {
      {"barrier, much in between", [](Numbers& n) { return call_of(n, Coll::all_reduce, 700000); },
       [](Numbers& n) { return call_of(n, Coll::barrier, 0); }, "all_reduce#4(count 700000",
       "barrier#4"},
      {"roots", [](Numbers& n) { return call_of(n, Coll::broadcast, 700000, 0); },
       [](Numbers& n) { return call_of(n, Coll::broadcast, 700000, 1); }, "root 0)", "root 1)"},
      {"roots, little data", [](Numbers& n) { return call_of(n, Coll::broadcast, 1, 0); },
       [](Numbers& n) { return call_of(n, Coll::broadcast, 1, 1); }, "root 0)", "root 1)"},
  };
  for (int i = 0; i < 10; ++i)
    for (const Pair& pair : pairs)
      each_fabric(3, [&](Station& station) {
        Collectives& comm = station.communicator();
        Numbers numbers;
        numbers.in.resize(700000);
        for (int k = 0; k < 3; ++k)
          RLX_EXPECT_OK(comm.run(call_of(numbers, Coll::all_reduce, 700000), soon()));
        const bool odd = station.rank() == 1;
        Status status = comm.run(odd ? pair.odd(numbers) : pair.most(numbers), soon());
        if (status) status = comm.run(call_of(numbers, Coll::barrier, 0), soon());
        RLX_EXPECT(!status && status.error().code == Code::kMismatch, "{} rank {}: {}", pair.what,
                   station.rank(), status ? "no error" : status.error().text);
        RLX_EXPECT(
            holds(status.error().text, pair.most_text) && holds(status.error().text, pair.odd_text),
            "{} rank {}: {}", pair.what, station.rank(), status.error().text);
      });
}

// Rank 1 sends another number of elements than rank 0 expects.
Test(trouble, of_counts_that_do_not_agree_is_told_in_bytes, .timeout = 200) {
  for (const Coll coll : {Coll::gatherv, Coll::all_to_allv})
    for (const std::uint64_t sent : {3, 5, 40000})
      for (const int to : {0, 1})
        each_fabric(3, [&](Station& station) {
          if (coll == Coll::gatherv && to == 1) return;
          Collectives& comm = station.communicator();
          Numbers numbers;
          const std::vector<std::uint64_t> displs = {0, 100000, 200000};
          std::vector<std::uint64_t> gives(3, 4), takes(3, 4);
          if (station.rank() == 1) gives[static_cast<std::size_t>(to)] = sent;
          Call call{.coll = coll,
                    .dtype = Dtype::i32,
                    .count = gives[0],
                    .in = numbers.in.data(),
                    .out = numbers.out.data()};
          const std::vector<std::uint64_t> zeros(3);
          if (coll == Coll::all_to_allv) call.send = {gives, zeros};
          if (coll == Coll::all_to_allv || station.rank() == 0) call.recv = {takes, displs};
          Status status = comm.run(call, soon());
          if (status) status = comm.run(call_of(numbers, Coll::barrier, 0), soon());
          const std::string want = fmt::format(
              "{}#1(i32{}) on test.0: rank 1 sends {} bytes to rank {}, which expects 16",
              name_of(coll), coll == Coll::gatherv ? ", root 0" : "", 4 * sent, to);
          RLX_EXPECT(
              !status && status.error().code == Code::kMismatch && holds(status.error().text, want),
              "rank {}: {}", station.rank(), status ? "no error" : status.error().text);
        });
}

Test(trouble, of_a_rank_that_never_calls_is_named_after_the_deadline, .timeout = 100) {
  each_fabric(3, [](Station& station) {
    Collectives& comm = station.communicator();
    Numbers numbers;
    station.meet();
    if (station.rank() != 1) {
      const Status status =
          comm.run(call_of(numbers, Coll::all_reduce, 9), Deadline::after_ms(1000));
      RLX_EXPECT(!status && status.error().code == Code::kTimeout, "wrong code");
      const std::string& text = status.error().text;
      RLX_EXPECT(text.find("all_reduce#1(count 9, i32, sum, fast) on test.0") == 0 &&
                     text.find("1 of 3 ranks missing: rank 1 (") != std::string::npos,
                 "{}", text);
    }
    station.meet();
  });
}

Test(trouble, of_a_dead_rank_is_named_in_every_phase, .timeout = 200) {
  // The victim dies before its call, or in the midst of it after a number of sweeps.
  for (const int sweeps : {-1, 0, 1, 3}) {
    WorldOptions options;
    options.expect_dead = {1};
    each_fabric(
        3,
        [sweeps](Station& station) {
          Collectives& comm = station.communicator();
          Numbers numbers;
          RLX_EXPECT_OK(comm.run(call_of(numbers, Coll::barrier, 0), soon()));
          if (station.rank() == 1) {
            if (sweeps >= 0) comm.start(call_of(numbers, Coll::all_reduce, 100000));
            for (int i = 0; i < sweeps; ++i) station.engine().progress();
            raise(SIGKILL);
          }
          const std::int64_t began = now_ns();
          Status status;
          // The first call may still end well if the victim got far enough.
          for (int i = 0; i < 2 && status; ++i)
            status = comm.run(call_of(numbers, Coll::all_reduce, 100000), soon());
          RLX_EXPECT(!status && status.error().code == Code::kPeerFailed, "{}",
                     status ? "no error" : status.error().text);
          const std::string& text = status.error().text;
          RLX_EXPECT(text.find("all_reduce#") == 0 && text.find("rank 1") != std::string::npos,
                     "{}", text);
          RLX_EXPECT(now_ns() - began < 10'000'000'000, "it took too long");
          station.meet({0, 2});
        },
        options);
  }
}

Test(trouble, of_a_call_that_waits_behind_a_broken_one_ends_with_it, .timeout = 100) {
  each_fabric(2, [](Station& station) {
    Collectives& comm = station.communicator();
    Collectives& other = station.communicator();
    Numbers numbers;
    const bool odd = station.rank() == 1;
    Request* first = comm.start(call_of(numbers, Coll::all_reduce, odd ? 4 : 5));
    Request* second = comm.start(call_of(numbers, Coll::barrier, 0));
    Request* apart = other.start(call_of(numbers, Coll::barrier, 0));
    for (Request* request : {first, second}) {
      const Status status = station.engine().wait(request, soon());
      RLX_EXPECT(!status && status.error().code == Code::kMismatch, "{}",
                 status ? "no error" : status.error().text);
      request->release();
    }
    RLX_EXPECT_OK(station.engine().wait(apart, soon()));  // other communicators are not touched
    apart->release();
    station.meet();
  });
}

// A rank whose deadline has passed has its buffers back. One that calls later may neither take what
// it finds there for a part of the result, nor write into them.
Test(trouble, of_a_late_rank_is_told_and_buffers_of_the_others_are_left_alone, .timeout = 100) {
  constexpr std::uint64_t kCount = 300000;
  struct Case {
    const char *fabrics, *rules;
    bool pooled;
  };
  for (const Case& one : {Case{"self,shm", "all_reduce -> shared", true},
                          Case{"self,shm", "all_reduce -> staged", false},
                          Case{"self,shm", "all_reduce -> direct", true},
                          Case{"self,tcp", "all_reduce -> direct", false}}) {
    auto& told = shared_number();
    const auto body = [&](Bootstrap& bootstrap) {
      Station station(bootstrap, one.fabrics);
      Collectives& comm = station.communicator(one.rules);
      std::vector<std::int32_t> own(one.pooled ? 0 : 2 * kCount);
      std::int32_t* in = own.data();
      if (one.pooled) {
        auto memory = station.endpoint().shm()->pool_alloc(2 * kCount * sizeof *in);
        RLX_EXPECT_OK(memory);
        in = static_cast<std::int32_t*>(*memory);
      }
      std::fill_n(in, 2 * kCount, station.rank());
      const Call call{.coll = Coll::all_reduce,
                      .dtype = Dtype::i32,
                      .op = Op::sum,
                      .count = kCount,
                      .in = in,
                      .out = in + kCount};
      RLX_EXPECT_OK(bootstrap.fence(soon()));
      const bool late = station.rank() == 1;
      if (!late) {
        const Status status = comm.run(call, Deadline::after_ms(50));
        RLX_EXPECT(!status && status.error().code == Code::kTimeout, "no timeout");
        std::fill_n(in, 2 * kCount, 77);
      }
      RLX_EXPECT_OK(bootstrap.fence(soon()));
      if (late) {
        const Status status = comm.run(call, soon());
        RLX_EXPECT(!status && status.error().code == Code::kPeerFailed, "{}",
                   status ? "success" : status.error().text);
        told = 1;
      } else {
        RLX_EXPECT_OK(station.engine().until([&] { return told != 0; }, soon()));
        RLX_EXPECT(std::all_of(in, in + 2 * kCount, [](auto x) { return x == 77; }), "written to");
      }
    };
    const WorldResult result = fork_world(2, body);
    cr_assert(result.ok, "%s, %s: %s", one.fabrics, one.rules, result.text.c_str());
  }
}
