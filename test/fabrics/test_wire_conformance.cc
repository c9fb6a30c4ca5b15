// SPDX-License-Identifier: MIT OR Apache-2.0
// What every wire promises (fabrics/wire.h), tried on every wire of the table.
#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "fabrics/registry.h"
#include "test/fabrics/wire_rank.h"

using namespace rlx;
using namespace rlx::test;

namespace {

using Body = void (*)(WireRank&);

enum class Who { everybody, processes };

// Runs `body` on n_ranks ranks over each wire. Over a wire to oneself on one rank, unless it takes
// several peers or `who` says that it makes sense between processes only.
void on_every_wire(int n_ranks, Body body, Who who = Who::everybody,
                   const WorldOptions& options = {}) {
  for (const WireEntry& entry : wire_table()) {
    const bool self = entry.name == "self";
    if (self && (n_ranks > 2 || who == Who::processes)) continue;
    const auto run = [&](Bootstrap& boot) {
      auto wire = entry.make(boot.facts());
      RLX_EXPECT_OK(wire);
      WireRank rank(boot, std::move(*wire));
      body(rank);
    };
    const auto result = fork_world(self ? 1 : n_ranks, run, options);
    cr_expect(result.ok, "%s: %s", std::string(entry.name).c_str(), result.text.c_str());
  }
}

struct Sizes {
  std::uint32_t n_ext, n_pay;
};

std::vector<Sizes> awkward_sizes(const Caps& caps) {
  std::vector<std::uint32_t> payloads = {0,  1,  7,   8,   9,    31,   32,   33,   40,    63,   64,
                                         65, 96, 127, 128, 1000, 4095, 4096, 4097, 16384, 32768};
  for (const std::uint32_t n : {caps.max_pay / 2, caps.max_pay - 1, caps.max_pay})
    payloads.push_back(n);
  std::vector<Sizes> sizes;
  for (const std::uint32_t n_pay : payloads)
    for (const std::uint32_t n_ext : {0u, 1u, 24u, 32u, caps.max_ext})
      sizes.push_back({n_ext, std::min(n_pay, caps.max_pay)});
  return sizes;
}

Link partner_of(const WireRank& rank) { return rank.size() - 1 - rank.rank(); }

// Sends and receives all awkward sizes at the same time; every second body is placed.
void exchange_all_sizes(WireRank& rank) {
  const Link partner = partner_of(rank);
  const Caps caps = rank.wire().caps(partner);
  RLX_EXPECT(caps.max_ext >= 32 && caps.max_pay >= 4096, "{} {}", caps.max_ext, caps.max_pay);
  const auto sizes = awkward_sizes(caps);
  const Pattern pattern(caps.max_pay);
  std::vector<char> room(caps.max_pay);
  std::size_t n_got = 0, n_places = 0;
  const auto expect_head = [&](Link from, const FrameView& view) {
    RLX_EXPECT(n_got < sizes.size(), "more frames than were sent");
    RLX_EXPECT(from == partner && view.type == n_got % 251 && view.tag == ~n_got, "frame {}",
               n_got);
    RLX_EXPECT(view.n_ext == sizes[n_got].n_ext && view.n_pay == sizes[n_got].n_pay, "frame {}",
               n_got);
    RLX_EXPECT(std::memcmp(view.ext, pattern.of(n_got + 1), view.n_ext) == 0, "ext {}", n_got);
  };
  rank.sink.place_hook = [&](Link from, const FrameView& head) -> void* {
    expect_head(from, head);
    RLX_EXPECT(head.pay == nullptr && ++n_places == 1, "place of frame {}", n_got);
    return n_got % 2 ? room.data() : nullptr;
  };
  rank.sink.frame_hook = [&](Link from, const FrameView& view) {
    expect_head(from, view);
    if (n_places == 1 && n_got % 2)
      RLX_EXPECT(view.pay == room.data(), "frame {} is not where it was placed", n_got);
    RLX_EXPECT(std::memcmp(view.pay, pattern.of(n_got), view.n_pay) == 0, "payload {}", n_got);
    n_places = 0;
    ++n_got;
  };
  std::vector<char> ext(caps.max_ext), pay(caps.max_pay);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::memcpy(ext.data(), pattern.of(i + 1), sizes[i].n_ext);
    std::memcpy(pay.data(), pattern.of(i), sizes[i].n_pay);
    const auto posted = rank.post(partner, {.type = static_cast<std::uint8_t>(i % 251),
                                            .tag = ~i,
                                            .ext = ext.data(),
                                            .n_ext = sizes[i].n_ext,
                                            .pay = pay.data(),
                                            .n_pay = sizes[i].n_pay});
    RLX_EXPECT(posted == Posted::kDone, "without a cookie nothing may be pending");
    std::fill(ext.begin(), ext.end(), 'x');  // ours again: the wire has taken a copy
    std::fill(pay.begin(), pay.end(), 'x');
  }
  rank.until([&] { return n_got == sizes.size(); }, "the arrival of all frames");
  rank.finish();
}

// Posts without the receiver's help until the wire is full, then lets it drain.
void fill_and_drain(WireRank& rank) {
  const Link partner = partner_of(rank);
  const Caps caps = rank.wire().caps(partner);
  const Pattern pattern(caps.max_pay);
  std::uint64_t n_posted = 0, n_got = 0;
  std::vector<bool> pending = {false};  // by cookie, from 1
  bool last = false;
  rank.sink.frame_hook = [&](Link, const FrameView& view) {
    RLX_EXPECT(view.tag == n_got && view.n_pay == caps.max_pay &&
                   std::memcmp(view.pay, pattern.of(n_got), view.n_pay) == 0,
               "frame {}", n_got);
    ++n_got;
    last = view.type == 1;
  };
  for (;; ++n_posted) {
    RLX_EXPECT(n_posted < 100000, "{} frames were taken and nobody reads", n_posted);
    const std::uint64_t cookie = n_posted % 3 ? n_posted + 1 : 0;
    const Posted posted = rank.wire().post(
        partner,
        {.tag = n_posted, .pay = pattern.of(n_posted), .n_pay = caps.max_pay, .cookie = cookie});
    if (posted == Posted::kFull) break;
    RLX_EXPECT(posted == Posted::kDone || cookie != 0, "pending without a cookie");
    pending.push_back(posted == Posted::kPending);
  }
  RLX_EXPECT(n_posted > 0 && n_got == 0 && rank.sink.sent.empty(), "post() calls no sink");
  for (const std::uint64_t end = n_posted + 200; n_posted <= end; ++n_posted)
    rank.post(partner, {.type = n_posted == end,
                        .tag = n_posted,
                        .pay = pattern.of(n_posted),
                        .n_pay = caps.max_pay});
  rank.until([&] { return last; }, "the last frame");
  rank.until([&] { return rank.wire().drained(); }, "draining");
  for (std::uint64_t cookie = 1; cookie < pending.size(); ++cookie) {
    const auto found = rank.sink.sent.find(cookie);
    const int times = found == rank.sink.sent.end() ? 0 : found->second;
    RLX_EXPECT(times == (pending[cookie] ? 1 : 0), "on_sent of cookie {}: {} times", cookie, times);
  }
  rank.finish();
}

// Streams both ways at once, every payload with a cookie, receives placed.
void stream_both_ways(WireRank& rank) {
  constexpr std::uint64_t kStreamBytes = 48 << 20;
  const Link partner = partner_of(rank);
  const Caps caps = rank.wire().caps(partner);
  const Pattern pattern(caps.max_pay);
  const std::uint64_t n_frames = kStreamBytes / caps.max_pay;
  std::vector<char> room(caps.max_pay);
  std::uint64_t n_got = 0, n_pending = 0;
  rank.sink.place_hook = [&](Link, const FrameView&) { return room.data(); };
  rank.sink.frame_hook = [&](Link, const FrameView& view) {
    RLX_EXPECT(view.tag == n_got && std::memcmp(view.pay, pattern.of(n_got), view.n_pay) == 0,
               "frame {}", n_got);
    ++n_got;
  };
  for (std::uint64_t i = 0; i < n_frames; ++i)
    n_pending +=
        rank.post(partner,
                  {.tag = i, .pay = pattern.of(i), .n_pay = caps.max_pay, .cookie = i + 1}) ==
        Posted::kPending;
  rank.until([&] { return n_got == n_frames && rank.sink.sent.size() == n_pending; },
             "both streams");
  rank.finish();
}

// Everybody to everybody, small and middle sizes mixed.
void all_to_all(WireRank& rank) {
  constexpr std::uint64_t kRounds = 100;
  const Pattern pattern(10000);
  std::vector<std::uint64_t> n_got(static_cast<std::size_t>(rank.size()), 0);
  rank.sink.frame_hook = [&](Link from, const FrameView& view) {
    std::uint64_t& n = n_got[static_cast<std::size_t>(from)];
    RLX_EXPECT(view.tag == n && view.n_pay == n * 37 % 10000, "frame {} of {}", n, from);
    RLX_EXPECT(
        std::memcmp(view.pay, pattern.of(n + static_cast<std::uint64_t>(from)), view.n_pay) == 0,
        "payload {} of {}", n, from);
    ++n;
  };
  const auto me = static_cast<std::uint64_t>(rank.rank());
  for (std::uint64_t i = 0; i < kRounds; ++i)
    for (Link peer = 0; peer < rank.size(); ++peer)
      if (peer != rank.rank())
        rank.post(peer, {.tag = i,
                         .pay = pattern.of(i + me),
                         .n_pay = static_cast<std::uint32_t>(i * 37 % 10000)});
  rank.until(
      [&] {
        for (Link peer = 0; peer < rank.size(); ++peer)
          if (peer != rank.rank() && n_got[static_cast<std::size_t>(peer)] != kRounds) return false;
        return true;
      },
      "all frames of all peers");
  rank.finish();
}

// A ping-pong in which both ranks sleep for every frame: a lost wakeup is a timeout of poll().
void sleep_for_every_frame(WireRank& rank) {
  const Link partner = partner_of(rank);
  if (!rank.wire().caps(partner).wake_fd) return;
  constexpr std::uint64_t kRounds = 3000;
  std::uint64_t n_got = 0;
  rank.sink.frame_hook = [&](Link, const FrameView&) { ++n_got; };
  const auto sleep_once = [&] {
    if (rank.wire().arm()) {
      pollfd entry = {rank.wire().fd(), POLLIN, 0};
      RLX_EXPECT(poll(&entry, 1, 10000) == 1, "slept through frame {}", n_got);
    }
    rank.wire().disarm();
  };
  std::mt19937 random(static_cast<unsigned>(rank.rank()));
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const std::uint64_t wanted = i + 1;
    if (rank.rank() == 0) rank.post(partner, {.tag = i});
    // Anywhere between the peer's look and its sleep.
    for (unsigned spin = static_cast<unsigned>(random() % 2000); spin > 0; --spin) asm volatile("");
    while (n_got < wanted)
      if (!rank.turn()) sleep_once();
    if (rank.rank() == 1) rank.post(partner, {.tag = i});
  }
  rank.finish();
}

// The highest rank is killed after some frames: all of them arrive, then each other rank hears of
// the death, once.
void hear_of_a_death(WireRank& rank) {
  constexpr int kFrames = 20;
  const Link victim = rank.size() - 1;
  int n_got = 0;
  rank.sink.frame_hook = [&](Link from, const FrameView&) {
    RLX_EXPECT(rank.sink.down.count(from) == 0, "a frame of a peer that is down");
    n_got += from == victim;
  };
  if (rank.rank() == victim) {
    const Pattern pattern(4096);
    for (int i = 0; i < kFrames; ++i)
      for (Link peer = 0; peer < victim; ++peer)
        rank.post(peer, {.pay = pattern.of(0), .n_pay = 4096});
    rank.until([&] { return rank.wire().drained(); }, "draining");
    raise(SIGKILL);
  }
  rank.until([&] { return rank.sink.down.count(victim) == 1; }, "news of the death");
  RLX_EXPECT(n_got == kFrames, "{} of {} frames that were sent before", n_got, kFrames);
  for (int i = 0; i < 1000; ++i) rank.turn();
  RLX_EXPECT(rank.sink.n_down[victim] == 1, "told {} times", rank.sink.n_down[victim]);
  RLX_EXPECT(!rank.sink.down[victim].empty(), "no reason");
  // A link that is down takes nothing and harms nothing.
  for (int i = 0; i < 100; ++i) {
    (void)rank.wire().post(victim, {.tag = 1});
    rank.turn();
  }
  RLX_EXPECT(rank.sink.n_down[victim] == 1 && rank.wire().drained(), "after posts to the dead");
}

// What was posted last arrives although its sender leaves at once.
void leave_after_draining(WireRank& rank) {
  const Link partner = partner_of(rank);
  const Caps caps = rank.wire().caps(partner);
  const Pattern pattern(caps.max_pay);
  int n_got = 0;
  rank.sink.frame_hook = [&](Link, const FrameView& view) {
    RLX_EXPECT(std::memcmp(view.pay, pattern.of(0), view.n_pay) == 0, "frame {}", n_got);
    ++n_got;
  };
  for (int i = 0; i < 8 && rank.rank() == 0; ++i)
    rank.post(partner, {.pay = pattern.of(0), .n_pay = caps.max_pay});
  if (rank.rank() == 0) return rank.until([&] { return rank.wire().drained(); }, "draining");
  rank.until([&] { return n_got == 8; }, "frames of a peer that left");
}

}  // namespace

Test(wires, deliver_every_size_in_order_and_copy_what_has_no_cookie, .timeout = 120) {
  on_every_wire(2, exchange_all_sizes);
}

Test(wires, are_full_in_time_and_tell_each_cookie_once, .timeout = 120) {
  on_every_wire(2, fill_and_drain);
}

Test(wires, stream_both_ways_at_once_without_deadlock, .timeout = 120) {
  on_every_wire(2, stream_both_ways);
}

Test(wires, serve_many_peers, .timeout = 120) { on_every_wire(8, all_to_all); }

Test(wires, wake_a_sleeper_for_every_frame, .timeout = 120) {
  on_every_wire(2, sleep_for_every_frame, Who::processes);
}

Test(wires, deliver_what_was_sent_before_a_death_and_tell_it_once, .timeout = 120) {
  for (const int n_ranks : {2, 5}) {
    WorldOptions options;
    options.expect_dead = {n_ranks - 1};
    on_every_wire(n_ranks, hear_of_a_death, Who::processes, options);
  }
}

Test(wires, deliver_what_a_peer_sent_before_it_left, .timeout = 120) {
  on_every_wire(2, leave_after_draining, Who::processes);
}
