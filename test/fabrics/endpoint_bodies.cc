// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/fabrics/endpoint_bodies.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "fabrics/shm.h"
#include "test/fabrics/endpoint_world.h"

namespace rlx::test {
namespace {

// Around every limit: room in a slot, a piece, a frame, the eager limit, the window, the slice of
// a read.
const std::uint64_t kSizes[] = {0,       1,       7,      8,       40,
                                41,      64,      104,    105,     1000,
                                4096,    16383,   16384,  16385,   32767,
                                32768,   32769,   65536,  98305,   131072,
                                131073,  262080,  262144, 1 << 20, (1 << 20) + 1,
                                2097151, 2097152, 5000001};

// Lets what peers have sent arrive.
void poll_a_while(Endpoint& ep) {
  for (int i = 0; i < 1000; ++i) ep.poll();
}

}  // namespace

// Each rank sends every size to its right neighbour; half of the receives are posted late.
void exchange_all_sizes(Endpoint& ep) {
  const int to = (ep.rank() + 1) % ep.size(), from = (ep.rank() + ep.size() - 1) % ep.size();
  for (const bool late : {false, true}) {
    for (std::uint64_t n : kSizes) {
      const std::vector<char> out = pattern(n, n + ep.rank());
      std::vector<char> in(n + 1, 'x');
      Request* received = late ? nullptr : ep.irecv(from, n, kWholeTag, in.data(), n);
      Request* sent = ep.isend(to, n, out.data(), n);
      if (late) {
        poll_a_while(ep);
        received = ep.irecv(from, n, kWholeTag, in.data(), n);
      }
      RLX_EXPECT_OK(ep.wait(received, soon()));
      RLX_EXPECT(received->n_bytes == n && received->source == from && received->tag == n,
                 "{} bytes from {}", received->n_bytes, received->source);
      received->release();
      RLX_EXPECT_OK(finish(ep, sent));
      const std::vector<char> want = pattern(n, n + from);
      RLX_EXPECT(std::equal(want.begin(), want.end(), in.begin()), "{} bytes, late {}", n, late);
      RLX_EXPECT(in[n] == 'x', "overrun at {}", n);
    }
  }
}

// The same out of and into the pool, where the receiver reads directly.
void exchange_in_the_pool(Endpoint& ep) {
  ShmWire& shm = *ep.shm();
  const int to = (ep.rank() + 1) % ep.size(), from = (ep.rank() + ep.size() - 1) % ep.size();
  for (std::uint64_t n : kSizes) {
    auto out = shm.pool_alloc(n), in = shm.pool_alloc(n);
    RLX_EXPECT_OK(out);
    RLX_EXPECT_OK(in);
    RLX_EXPECT(shm.in_pool(*out, n) && reinterpret_cast<std::uint64_t>(*out) % 128 == 0, "{}", n);
    fill(static_cast<char*>(*out), n, n + ep.rank());
    Request* const received = ep.irecv(from, n, kWholeTag, *in, n);
    Request* const sent = ep.isend(to, n, *out, n);
    RLX_EXPECT_OK(finish(ep, received));
    RLX_EXPECT_OK(finish(ep, sent));
    const std::vector<char> want = pattern(n, n + from);
    RLX_EXPECT(std::equal(want.begin(), want.end(), static_cast<char*>(*in)), "{} bytes", n);
    RLX_EXPECT_OK(shm.pool_free(*out));
    RLX_EXPECT_OK(shm.pool_free(*in));
  }
  // Too much is an error, found before the machine's memory is gone.
  for (std::uint64_t n : {std::uint64_t{1} << 45, ~std::uint64_t{0}}) {
    const auto none = shm.pool_alloc(n);
    RLX_EXPECT(!none && none.error().code == Code::kNoMemory, "{} bytes", n);
  }
  int here = 0;
  RLX_EXPECT(!shm.pool_free(&here) && !shm.in_pool(&here, 1), "the stack is in the pool");
}

void match_in_order(Endpoint& ep) {
  // Every rank but 0 sends 40 messages; each number says how many came before it from that rank.
  constexpr int kN = 40;
  if (ep.rank() != 0) {
    for (std::uint32_t i = 0; i < kN; ++i) send(ep, 0, make_tag(5, i % 4), &i, sizeof i);
    return;
  }
  struct Want {
    int from;
    std::uint64_t tag, mask;
  };
  std::mt19937 random(3);
  std::vector<std::vector<bool>> seen(ep.size(), std::vector<bool>(kN));
  std::vector<Request*> requests;
  std::vector<std::uint32_t> got(kN * (ep.size() - 1));
  // Wildcards of every kind, half posted before anything arrives and half after; in the end each
  // message is taken exactly once because the last receives accept everything.
  const std::size_t n_all = got.size();
  std::vector<Want> wants;
  for (std::size_t i = 0; i < n_all; ++i) {
    if (i == n_all / 2) poll_a_while(ep);
    const bool wild = i >= n_all / 8;
    const Want want{wild ? kAnySource : 1 + static_cast<int>(i) % (ep.size() - 1),
                    make_tag(5, i % 4), wild && i >= n_all / 4 ? kAnyUserTag : kWholeTag};
    wants.push_back(want);
    requests.push_back(ep.irecv(want.from, want.tag, want.mask, &got[i], sizeof got[i]));
  }
  std::vector<std::vector<std::int64_t>> last(ep.size(), std::vector<std::int64_t>(4, -1));
  for (std::size_t i = 0; i < n_all; ++i) {
    RLX_EXPECT_OK(ep.wait(requests[i], soon()));
    const Request& r = *requests[i];
    RLX_EXPECT(wants[i].from == kAnySource || r.source == wants[i].from, "receive {}", i);
    RLX_EXPECT(((r.tag ^ wants[i].tag) & wants[i].mask) == 0, "receive {} got tag {}", i, r.tag);
    RLX_EXPECT(!seen[r.source][got[i]], "message {} of {} came twice", got[i], r.source);
    seen[r.source][got[i]] = true;
    RLX_EXPECT(r.tag == make_tag(5, got[i] % 4), "wrong bytes for tag {}", r.tag);
    // Later receives of the same rank and tag get later messages.
    std::int64_t& before = last[r.source][got[i] % 4];
    RLX_EXPECT(before < got[i], "message {} of {} after {}", got[i], r.source, before);
    before = got[i];
    requests[i]->release();
  }
}

void contexts_are_apart(Endpoint& ep) {
  const int peer = 1 - ep.rank();
  std::uint32_t a = 1, b = 2, in_a = 0, in_b = 0;
  Request* const second = ep.irecv(peer, make_tag(9, 7), kAnyUserTag, &in_b, 4);
  Request* const first = ep.irecv(kAnySource, make_tag(8, 7), kAnyUserTag, &in_a, 4);
  send(ep, peer, make_tag(8, 7), &a, 4);
  send(ep, peer, make_tag(9, 7), &b, 4);
  RLX_EXPECT_OK(finish(ep, first));
  RLX_EXPECT_OK(finish(ep, second));
  RLX_EXPECT(in_a == 1 && in_b == 2, "{} {}", in_a, in_b);
}

// Nothing the sender does makes the receiver hold more than its window.
void survive_a_flood(Endpoint& ep) {
  constexpr std::uint32_t kN = 30000, kBytes = 2000;
  const auto resident_kb = [] {
    long total = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> total >> resident;
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
  };
  std::vector<char> data(kBytes);
  if (ep.rank() == 0) {
    std::vector<Request*> requests;
    for (std::uint32_t i = 0; i < kN; ++i) {
      if (requests.size() <= i) data[0] = 'f';
      if (Request* r = ep.isend(1, i, data.data(), kBytes)) requests.push_back(r);
    }
    RLX_EXPECT(requests.size() > kN / 2, "only {} sends wait", requests.size());
    send(ep, 1, kN, nullptr, 0);
    for (Request* r : requests) RLX_EXPECT_OK(finish(ep, r));
    return;
  }
  const long before = resident_kb();
  for (int i = 0; i < 20000; ++i) ep.poll();
  RLX_EXPECT(resident_kb() - before < 8000, "grew by {} KiB", resident_kb() - before);
  for (std::uint32_t i = 0; i < kN; ++i) recv(ep, 0, i, data.data(), kBytes);
  recv(ep, 0, kN, nullptr, 0);
}

void truncate_on_the_receiver_only(Endpoint& ep) {
  const int peer = 1 - ep.rank();
  for (const bool late : {false, true}) {
    for (std::uint64_t n : {9u, 200u, 20000u, 65536u, 200000u, 3000000u}) {
      const std::vector<char> out = pattern(n, n);
      std::vector<char> in(n, 'x');
      const std::uint64_t room = n / 3;
      Request* r = late ? nullptr : ep.irecv(peer, 4, kWholeTag, in.data(), room);
      Request* const s = ep.isend(peer, 4, out.data(), n);
      if (late) {
        poll_a_while(ep);
        r = ep.irecv(peer, 4, kWholeTag, in.data(), room);
      }
      const Status got = ep.wait(r, soon());
      RLX_EXPECT(!got && got.error().code == Code::kTruncated && r->n_bytes == room, "{} bytes", n);
      r->release();
      RLX_EXPECT_OK(finish(ep, s));
      RLX_EXPECT(std::equal(in.begin(), in.begin() + room, out.begin()), "{} bytes", n);
      RLX_EXPECT(std::all_of(in.begin() + room, in.end(), [](char c) { return c == 'x'; }),
                 "{} bytes: overrun", n);
    }
  }
}

void cancel_and_probe(Endpoint& ep) {
  const int peer = 1 - ep.rank();
  int in = 0;
  Request* const r = ep.irecv(peer, 77, kWholeTag, &in, sizeof in);
  Request* const any = ep.irecv(kAnySource, 78, kWholeTag, &in, sizeof in);
  for (Request* request : {r, any}) {
    RLX_EXPECT(ep.cancel(request) && request->done && request->cancelled, "not cancelled");
    RLX_EXPECT(!ep.cancel(request), "cancelled twice");
    RLX_EXPECT(ep.wait(request, soon()).error().code == Code::kCancelled, "wrong code");
    request->release();
  }
  for (std::uint64_t n : {5u, 50000u, 3000000u}) {
    const std::vector<char> out = pattern(n, 1);
    std::vector<char> into(n);
    Request* const s = ep.isend(peer, n, out.data(), n);
    std::optional<Envelope> found;
    RLX_EXPECT_OK(ep.until(
        [&] {
          ep.poll();
          found = ep.iprobe(kAnySource, 0, 0);
          return found ? Turn::kDone : Turn::kIdle;
        },
        soon()));
    RLX_EXPECT(found->source == peer && found->tag == n && found->n_bytes == n, "{}", n);
    RLX_EXPECT(!ep.iprobe(peer, 76, kWholeTag), "a message that nobody sent");
    recv(ep, peer, n, into.data(), n);
    RLX_EXPECT(into == out, "{} bytes", n);
    RLX_EXPECT(!ep.iprobe(kAnySource, n, kWholeTag), "still there");
    RLX_EXPECT_OK(finish(ep, s));
  }
}

// Everybody to everybody, all sizes mixed, in flight together.
void storm(Endpoint& ep) {
  std::mt19937 random(11);
  const int rounds = ep.size() > 8 ? 3 : 12;
  std::vector<std::vector<char>> out, in;
  std::vector<Request*> requests;
  std::vector<std::pair<int, std::uint64_t>> expected;
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t n = i % 3 == 0 ? random() % 200 : random() % 90000;
    out.push_back(pattern(n, i * 100 + ep.rank()));
    for (int peer = 0; peer < ep.size(); ++peer) {
      in.emplace_back(n);
      expected.emplace_back(i * 100 + peer, n);
      requests.push_back(ep.irecv(peer, i, kWholeTag, in.back().data(), n));
    }
  }
  for (int i = 0; i < rounds; ++i)
    for (int peer = 0; peer < ep.size(); ++peer)
      requests.push_back(ep.isend((ep.rank() + peer) % ep.size(), i, out[i].data(), out[i].size()));
  for (Request* r : requests) RLX_EXPECT_OK(finish(ep, r));
  for (std::size_t i = 0; i < in.size(); ++i)
    RLX_EXPECT(in[i] == pattern(expected[i].second, expected[i].first), "message {}", i);
}

// Every wait sleeps, so every message, acknowledgement and answer has to ring. A ring that is lost
// shows as a sleep that timed out with work to do.
void sleep_for_everything(Endpoint& ep) {
  ep.set_wait_budget({.spins = 0, .yield_us = 0});
  const int to = (ep.rank() + 1) % ep.size(), from = (ep.rank() + ep.size() - 1) % ep.size();
  // Small ones, through a full ring, by streaming, by asking.
  for (std::uint64_t n : {8u, 60000u, 1000000u}) {
    std::vector<char> out(n, 'a'), in(n);
    for (int i = 0; i < (n == 8 ? 200 : 10); ++i) {
      Request* const r = ep.irecv(from, 1, kWholeTag, in.data(), n);
      Request* const s = ep.isend(to, 1, out.data(), n);
      RLX_EXPECT_OK(finish(ep, r));
      RLX_EXPECT_OK(finish(ep, s));
    }
    RLX_EXPECT(in == out, "{} bytes", n);
  }
  // One way only: the sender fills the ring and sleeps until the receiver acknowledges.
  std::vector<char> data(3000);
  for (int i = 0; i < 1000; ++i) {
    if (ep.rank() == 0) send(ep, 1, 2, data.data(), data.size());
    if (ep.rank() == 1) recv(ep, 0, 2, data.data(), data.size());
  }
  // A timer may fire in the instant before the ring; more than that is a lost ring.
  RLX_EXPECT(ep.n_late_wakes() <= 2, "{} late wakes", ep.n_late_wakes());
}

}  // namespace rlx::test
