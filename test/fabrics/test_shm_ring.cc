// SPDX-License-Identifier: MIT OR Apache-2.0
// The rings of two ranks, written and read at random in one process: what lies in them unread is
// never overwritten, and room that has been read comes back.
#include <criterion/criterion.h>

#include <deque>
#include <memory>
#include <random>
#include <string>

#include "fabrics/shm_ring.h"

using namespace rlx;

namespace {

constexpr RingShape kShape{.max_pay = 8 << 10, .n_body_bytes = 32 << 10};

// One direction and what is in it.
struct Direction {
  Direction()
      : raw(static_cast<std::byte*>(std::aligned_alloc(128, kShape.n_bytes())), std::free),
        memory(new (raw.get()) RingMemory{}),
        out(memory, kShape),
        in(memory, kShape) {}

  std::unique_ptr<std::byte, decltype(&std::free)> raw;
  RingMemory* memory;
  RingWriter out;
  RingReader in;
  std::deque<std::string> unread;
};

class Pair {
 public:
  explicit Pair(bool frames_tell) : frames_tell_(frames_tell) {}

  bool write(int from, const std::string& text, std::uint32_t n_ext) {
    Direction& way = ways_[from];
    RingReader& other = ways_[1 - from].in;
    const auto n_pay = static_cast<std::uint32_t>(text.size()) - n_ext;
    const Frame frame{.type = 1,
                      .tag = text.size(),
                      .ext = text.data(),
                      .n_ext = n_ext,
                      .pay = text.data() + n_ext,
                      .n_pay = n_pay};
    if (!way.out.write(frame, frames_tell_ ? other.n_read() : 0)) return false;
    if (frames_tell_) other.told();
    way.unread.push_back(text);
    return true;
  }

  bool read(int to) {
    Direction& way = ways_[1 - to];
    FrameView view;
    if (way.in.look(view) != RingReader::Seen::kFrame) return false;
    ways_[to].out.learn(way.in.heard());
    cr_assert_not(way.unread.empty(), "a frame that nobody wrote");
    const std::string got = std::string(view.ext, view.n_ext) + std::string(view.pay, view.n_pay);
    cr_assert(got == way.unread.front(), "%zu bytes arrived as others", way.unread.front().size());
    way.unread.pop_front();
    if (way.in.release()) way.in.acknowledge();
    return true;
  }

  std::size_t n_unread(int to) const { return ways_[1 - to].unread.size(); }

 private:
  bool frames_tell_;
  Direction ways_[2];
};

// One frame there, one back, n times.
void send_in_turn(Direction& to, Direction& from, const Frame& frame, std::uint32_t n) {
  for (std::uint32_t i = 0; i < 2 * n; ++i) {
    Direction& way = i % 2 == 0 ? to : from;
    Direction& back = i % 2 == 0 ? from : to;
    cr_assert(way.out.write(frame, back.in.n_read()));
    back.in.told();
    FrameView view;
    cr_assert(way.in.look(view) == RingReader::Seen::kFrame);
    back.out.learn(way.in.heard());
    cr_assert_not(way.in.release(), "an acknowledgement of its own, where frames carry it");
  }
}

std::string text_of(std::mt19937& random, std::size_t n) {
  std::string text(n, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Sizes at the edges of a slot and of the body ring, and between.
std::size_t size_of_next(std::mt19937& random) {
  constexpr std::size_t kEdges[] = {0, 1, 40, 41, 104, 105, 1024, 4096, 8192};
  return random() % 2 ? kEdges[random() % std::size(kEdges)] : random() % 8193;
}

}  // namespace

Test(ring, what_is_unread_stays_and_room_comes_back) {
  for (const bool frames_tell : {false, true}) {
    std::mt19937 random(7);
    Pair pair(frames_tell);
    int n_written = 0, n_full = 0;
    for (int i = 0; i < 60000; ++i) {
      const int rank = static_cast<int>(random() % 2);
      // Now one way mostly, now in turn, now until all is full.
      const bool writes = random() % 16 < (i / 5000 % 2 == 0 ? 8U : rank == 0 ? 13U : 4U);
      if (!writes) {
        pair.read(rank);
        continue;
      }
      const std::string text = text_of(random, size_of_next(random));
      const auto n_ext =
          static_cast<std::uint32_t>(random() % (std::min<std::size_t>(text.size(), 32) + 1));
      (pair.write(rank, text, n_ext) ? n_written : n_full)++;
      if (i % 97 != 0) continue;
      for (const int to : {0, 1}) {
        while (pair.read(to)) {
        }
        cr_assert_eq(pair.n_unread(to), 0);
      }
      // A reader who has read all and not said so yet keeps the writer from nothing.
      for (const int from : {0, 1})
        cr_assert(pair.write(from, std::string(8192, 'x'), 0), "full after %d", i);
    }
    cr_assert_gt(n_written, 1000);
    cr_assert_gt(n_full, 1000);
  }
}

// A reader who has read all and not said so yet keeps the writer from nothing.
Test(ring, what_is_read_is_no_hindrance) {
  std::mt19937 random(11);
  Pair pair(true);
  for (int i = 0; i < 20000; ++i) {
    const int n = static_cast<int>(random() % 64);
    for (int k = 0; k < n; ++k) {
      const std::string text(random() % 2 * 200, 'x');
      const bool at_once = pair.write(0, text, 0);
      if (at_once && random() % 2) continue;
      while (pair.read(1)) {
      }
      cr_assert(at_once || pair.write(0, text, 0), "run %d, frame %d", i, k);
    }
    while (pair.read(1)) {
    }
    if (random() % 2) {
      cr_assert(pair.write(1, "", 0));
      cr_assert(pair.read(0));
    }
  }
}

Test(ring, messages_in_turn_use_the_same_few_lines) {
  Direction to, from;
  const std::string text(1024, 'x');
  const Frame frame{.type = 1, .pay = text.data(), .n_pay = 1024};
  send_in_turn(to, from, frame, 1000);
  for (const auto* way : {&to, &from}) {
    int n_used = 0;
    for (const RingSlot& slot : way->memory->slots) {
      if (static_cast<std::uint32_t>(slot.word) <= RingMemory::kSlots) continue;  // the first round
      ++n_used;
      cr_assert_leq(slot.place.body_at, 4096);
    }
    cr_assert_leq(n_used, 20);
  }
}

// A number that stayed in a slot would be taken for a new frame 2^32 frames later.
Test(ring, no_slot_keeps_its_number) {
  Direction to, from;
  const Frame frame{.type = 1};
  constexpr std::uint32_t kFrames = 3 << 20;
  send_in_turn(to, from, frame, kFrames);
  for (const RingSlot& slot : to.memory->slots)
    cr_assert_geq(static_cast<std::uint32_t>(slot.word), kFrames - (2 << 20));
}

// A peer that lies about what it has read harms only what it is sent itself.
Test(ring, counts_that_cannot_be_are_passed_over) {
  Direction way;
  const std::string text(8192, 'x');
  const Frame frame{.type = 1, .pay = text.data(), .n_pay = 8192};
  std::mt19937 random(3);
  int n_written = 0;
  for (int i = 0; i < 10000; ++i) {
    way.memory->acknowledged = static_cast<std::uint32_t>(random());
    way.out.learn(static_cast<std::uint16_t>(random()));
    n_written += way.out.write(frame, 0);
    for (const RingSlot& slot : way.memory->slots)
      if (slot.word != 0) cr_assert_leq(slot.place.body_at + slot.place.n_pay, kShape.n_body_bytes);
  }
  cr_assert_gt(n_written, 0);
}
