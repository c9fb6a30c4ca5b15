// SPDX-License-Identifier: MIT OR Apache-2.0
// One direction between two ranks of a host: a ring of slots with one writer and one reader, in the
// reader's area.
//
// A slot is two cache lines; its head and up to 40 bytes share the first, so a small message is one
// line that moves from core to core. The reader polls that line, so between two stores to it the
// reader may take it away and the writer has to fetch it again: the writer touches it last and with
// few stores. Slots are 128 bytes apart because the prefetcher fetches lines in pairs. Longer
// bodies go through a ring of bytes behind the slots. Lines that stay in the first-level caches
// move in half the time, so both begin anew, before they are full, when all that was written has
// been read. The reader says how many frames it has read with each frame of the other direction,
// where that costs nothing, and else lazily in a word of its own: an acknowledgement a message
// would bounce a line.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "fabrics/copy.h"
#include "fabrics/wire.h"

namespace rlx {

struct RingSlot {
  static constexpr std::uint32_t kRoom = 104;
  static constexpr std::uint32_t kRoomInFirstLine = 40;
  static constexpr std::uint32_t kNoBody = ~std::uint32_t{0};

  // What the slot's frame is and where its body lies.
  struct Place {
    std::uint64_t tag;
    std::uint32_t n_pay;
    std::uint32_t body_at;  // offset in the byte ring; kNoBody: the body follows ext in room
  };

  // Stored last: number of the frame + 1 (32 bits), type (8 bits), n_ext (7 bits), whether the next
  // frame is in the first slot instead of the one behind this (1 bit), and how many frames of the
  // other direction its writer has read (the low 16 bits).
  std::atomic<std::uint64_t> word;
  Place place;
  char room[kRoom];

  static std::uint64_t make_word(std::uint32_t number, std::uint8_t type, std::uint32_t n_ext,
                                 bool anew, std::uint16_t n_read) {
    return (number + 1U) | std::uint64_t{type} << 32 | std::uint64_t{n_ext} << 40 |
           std::uint64_t{anew} << 47 | std::uint64_t{n_read} << 48;
  }
};
static_assert(sizeof(RingSlot) == 128);

// In shared memory, zero at the start, followed by n_body_bytes.
struct RingMemory {
  static constexpr std::uint32_t kSlots = 64;
  // So many frames read that the writer may not know of are acknowledged. The first slots are used
  // anew only behind as many: a writer that waits for room waits for a reader who has that many.
  static constexpr std::uint32_t kAckFrames = 16;

  alignas(128) std::atomic<std::uint32_t> acknowledged;  // frames read, modulo 2^32
  alignas(128) RingSlot slots[kSlots];

  std::byte* body() { return reinterpret_cast<std::byte*>(this + 1); }
};

// Sizes of every ring in a job on one host. n_body_bytes is a power of two, at least 4 frames.
struct RingShape {
  std::uint32_t max_pay = 32 << 10;
  std::uint32_t n_body_bytes = 128 << 10;

  std::size_t n_bytes() const { return sizeof(RingMemory) + n_body_bytes; }
  bool operator==(const RingShape&) const = default;
};

class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(RingMemory* memory, RingShape shape) : memory_(memory), shape_(shape) {}

  // False: no room until the reader acknowledges. `n_read`: what goes back to it with the frame,
  // RingReader::n_read() of the other direction.
  bool write(const Frame& frame, std::uint16_t n_read) {
    const bool in_slot = frame.n_ext + frame.n_pay <= RingSlot::kRoom;
    if (!has_room(in_slot ? 0 : frame.n_pay)) [[unlikely]]
      return false;
    RingSlot& slot = memory_->slots[slot_next_ % RingMemory::kSlots];
    RingSlot::Place place{frame.tag, frame.n_pay, RingSlot::kNoBody};
    if (in_slot) {
      put_in_slot(slot, frame);
    } else {
      const std::uint32_t start = body_start(frame.n_pay);
      place.body_at = start % shape_.n_body_bytes;
      std::memcpy(memory_->body() + place.body_at, frame.pay, frame.n_pay);
      body_next_ = start + body_room(frame.n_pay);
      copy_bytes(slot.room, frame.ext, frame.n_ext);
    }
    // The first slots are free if all frames before this one have been read. Now and then all slots
    // are gone through, so that none keeps a number until its turn comes again, after 2^32 frames.
    const bool anew = frames_read_ == next_ &&
                      slot_next_ % RingMemory::kSlots >= RingMemory::kAckFrames &&
                      next_ % kRoundEvery >= RingMemory::kSlots;
    slot_next_ = anew ? (slot_next_ | (RingMemory::kSlots - 1)) + 1 : slot_next_ + 1;
    ends_[next_ % RingMemory::kSlots] = {slot_next_, body_next_};
    std::memcpy(&slot.place, &place, sizeof place);
    slot.word.store(RingSlot::make_word(next_++, frame.type, frame.n_ext, anew, n_read),
                    std::memory_order_release);
    if (!in_slot && frame.n_pay <= kFetchAhead) fetch_ahead(frame.n_pay);
    return true;
  }

  // What a frame of the other direction said (RingReader::heard()). Nobody may write 65000 frames
  // without having heard what has come by then.
  void learn(std::uint16_t n_read) {
    set_read(static_cast<std::uint16_t>(n_read - static_cast<std::uint16_t>(frames_read_)));
  }

  bool drained() {
    refresh();
    return frames_read_ == next_;
  }

 private:
  static void put_in_slot(RingSlot& slot, const Frame& frame) {
    const auto* const pay = static_cast<const char*>(frame.pay);
    char* const to = slot.room + frame.n_ext;
    std::uint32_t n_first = frame.n_pay;
    if (frame.n_ext + frame.n_pay > RingSlot::kRoomInFirstLine) {
      n_first =
          frame.n_ext < RingSlot::kRoomInFirstLine ? RingSlot::kRoomInFirstLine - frame.n_ext : 0;
      copy_bytes(to + n_first, pay + n_first, frame.n_pay - n_first);
    }
    if (frame.n_ext != 0) copy_bytes(slot.room, frame.ext, frame.n_ext);
    copy_bytes(to, pay, n_first);
  }
  // The lines that the next body of this length will be written to belong to the reader, who read
  // them last; nobody polls them, so they can be taken back before they are needed.
  void fetch_ahead(std::uint32_t n) {
#if defined(__x86_64__)
    // By then all is read, if all but the last frame is now.
    const bool anew = next_ - frames_read_ == 1 && begins_anew();
    const std::byte* const at = memory_->body() + (anew ? 0 : body_start(n) % shape_.n_body_bytes);
    for (std::uint32_t i = 0; i < n; i += 64) asm volatile("prefetchw %0" : : "m"(at[i]));
#else
    static_cast<void>(n);
#endif
  }
  static std::uint32_t body_room(std::uint32_t n) { return (n + 63) & ~std::uint32_t{63}; }
  // Where the next body of n bytes begins: bodies do not wrap.
  std::uint32_t body_start(std::uint32_t n) const {
    const std::uint32_t at = body_next_ % shape_.n_body_bytes;
    return at + body_room(n) <= shape_.n_body_bytes ? body_next_
                                                    : body_next_ + (shape_.n_body_bytes - at);
  }
  // Not at once: short bodies take turns, so that one can be fetched while another is read.
  bool begins_anew() const { return body_next_ >= kAnewFromByte; }
  bool fits(std::uint32_t n_pay) const {
    return slot_next_ - slot_freed_ < RingMemory::kSlots &&
           (n_pay == 0 ||
            body_start(n_pay) + body_room(n_pay) - body_freed_ <= shape_.n_body_bytes);
  }
  // n more frames have been read, as the peer says.
  void set_read(std::uint32_t n) {
    if (n == 0 || n > next_ - frames_read_) return;  // 0: known already, or something older
    frames_read_ += n;
    const Ends& last = ends_[(frames_read_ - 1) % RingMemory::kSlots];
    slot_freed_ = last.slot;
    body_freed_ = last.body;
    if (frames_read_ == next_ && begins_anew()) body_next_ = body_freed_ = 0;
  }
  void refresh() { set_read(memory_->acknowledged.load(std::memory_order_acquire) - frames_read_); }
  bool has_room(std::uint32_t n_pay) {
    if (fits(n_pay)) [[likely]]
      return true;
    refresh();
    return fits(n_pay);
  }

  static constexpr std::uint32_t kFetchAhead = 1024;  // measured: more lines at a time take longer
  static constexpr std::uint32_t kAnewFromByte = 4096;
  static constexpr std::uint32_t kRoundEvery = 1U << 20;  // frames

  // Where the slot and the body behind a frame begin.
  struct Ends {
    std::uint32_t slot, body;
  };

  RingMemory* memory_ = nullptr;
  RingShape shape_;
  std::uint32_t next_ = 0;         // frames written
  std::uint32_t frames_read_ = 0;  // as last seen
  // Slots and body bytes written, gaps at the end included, and read, as last seen.
  std::uint32_t slot_next_ = 0, slot_freed_ = 0;
  std::uint32_t body_next_ = 0, body_freed_ = 0;
  Ends ends_[RingMemory::kSlots] = {};
};

class RingReader {
 public:
  enum class Seen { kNothing, kFrame, kBroken };

  RingReader() = default;
  RingReader(RingMemory* memory, RingShape shape) : memory_(memory), shape_(shape) {}

  bool has_frame() const {
    return static_cast<std::uint32_t>(slot().word.load(std::memory_order_acquire)) == next_ + 1;
  }
  // The next frame, as a view into shared memory; release() it afterwards. A peer that breaks the
  // layout is reported, never followed.
  Seen look(FrameView& view) {
    const RingSlot& slot = this->slot();
    const std::uint64_t word = slot.word.load(std::memory_order_acquire);
    if (static_cast<std::uint32_t>(word) != next_ + 1) return Seen::kNothing;
    RingSlot::Place place;
    std::memcpy(&place, &slot.place, sizeof place);
    view.type = static_cast<std::uint8_t>(word >> 32);
    view.n_ext = static_cast<std::uint8_t>(word >> 40 & 0x7F);
    view.tag = place.tag;
    view.ext = slot.room;
    view.n_pay = place.n_pay;
    anew_ = (word >> 47 & 1) != 0;
    heard_ = static_cast<std::uint16_t>(word >> 48);
    n_body_ = 0;
    if (place.body_at == RingSlot::kNoBody) {
      view.pay = slot.room + view.n_ext;
      return view.n_ext + std::uint64_t{view.n_pay} <= RingSlot::kRoom ? Seen::kFrame
                                                                       : Seen::kBroken;
    }
    view.pay = reinterpret_cast<const char*>(memory_->body()) + place.body_at;
    n_body_ = view.n_pay;
    const bool sound = view.n_ext <= RingSlot::kRoom && view.n_pay <= shape_.max_pay &&
                       std::uint64_t{place.body_at} + view.n_pay <= shape_.n_body_bytes;
    return sound ? Seen::kFrame : Seen::kBroken;
  }
  // True: enough has come together that acknowledge() is due.
  bool release() {
    ++next_;
    slot_ = anew_ ? 0 : (slot_ + 1) % RingMemory::kSlots;
    body_untold_ += n_body_;
    return next_ - frames_told_ >= RingMemory::kAckFrames ||
           body_untold_ >= shape_.n_body_bytes / 4;
  }
  // What the frame in view says of the other direction.
  std::uint16_t heard() const { return heard_; }
  // For the next frame of the other direction, and that it has left.
  std::uint16_t n_read() const { return static_cast<std::uint16_t>(next_); }
  void told() {
    frames_told_ = next_;
    body_untold_ = 0;
  }
  // Tells the writer what is free; false if it knows already. Ring its bell afterwards.
  bool acknowledge() {
    if (frames_told_ == next_) return false;
    told();
    memory_->acknowledged.store(next_, std::memory_order_release);
    return true;
  }

 private:
  const RingSlot& slot() const { return memory_->slots[slot_]; }

  RingMemory* memory_ = nullptr;
  RingShape shape_;
  std::uint32_t next_ = 0;         // frames read
  std::uint32_t slot_ = 0;         // where the next one comes
  std::uint32_t frames_told_ = 0;  // acknowledged
  std::uint32_t body_untold_ = 0;  // bytes read and not acknowledged
  std::uint32_t n_body_ = 0;       // of the frame in view
  bool anew_ = false;              // the same
  std::uint16_t heard_ = 0;
};

}  // namespace rlx
