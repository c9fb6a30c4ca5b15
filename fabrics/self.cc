// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/self.h"

#include <fmt/core.h>

#include <cstring>
#include <new>

#include "fabrics/shm_ring.h"

namespace rlx {
namespace {

constexpr RingShape kShape;
constexpr std::uint64_t kReadFrom = 16 << 10;
constexpr int kFramesPerLook = 16;

}  // namespace

struct SelfWire::Ring {
  RingMemory* memory;
  RingWriter out;
  RingReader in;
};

void SelfWire::FreeRing::operator()(Ring* ring) const {
  ::operator delete(ring->memory, std::align_val_t(alignof(RingMemory)));
  delete ring;
}

SelfWire::SelfWire(Link rank, std::unique_ptr<Ring, FreeRing> ring)
    : rank_(rank), ring_(std::move(ring)) {}

Result<std::unique_ptr<Wire>> SelfWire::create(const BootstrapFacts& facts) {
  void* const raw = ::operator new(kShape.n_bytes(), std::align_val_t(alignof(RingMemory)));
  auto* const memory = static_cast<RingMemory*>(std::memset(raw, 0, kShape.n_bytes()));
  std::unique_ptr<Ring, FreeRing> ring(
      new Ring{memory, RingWriter(memory, kShape), RingReader(memory, kShape)});
  return std::unique_ptr<Wire>(new SelfWire(facts.rank, std::move(ring)));
}

std::string SelfWire::address() const { return {}; }

Status SelfWire::connect(Link peer, std::string_view) {
  if (peer == rank_) return {};
  return fail(Code::kUnreachable, "it is not this rank");
}

Caps SelfWire::caps(Link) const {
  return {.max_ext = RingSlot::kRoom,
          .max_pay = kShape.max_pay,
          .eager_bytes = kShape.max_pay,
          .piece_bytes = 0,
          .wake_fd = false,
          .alpha_us = 0.02,
          .beta_us_per_byte = 1.0 / 50e3};
}

Posted SelfWire::post(Link, const Frame& frame) {
  return ring_->out.write(frame, 0) ? Posted::kDone : Posted::kFull;
}

int SelfWire::progress(Sink& sink) {
  FrameView view;
  int n_frames = 0;
  while (n_frames < kFramesPerLook && ring_->in.look(view) == RingReader::Seen::kFrame) {
    sink.on_frame(rank_, view);
    if (ring_->in.release()) ring_->in.acknowledge();
    ++n_frames;
  }
  return n_frames;
}

Offer SelfWire::offers(Link, const void*, std::uint64_t n_bytes) const {
  return n_bytes >= kReadFrom ? Offer::kShould : Offer::kNone;
}

Status SelfWire::read(Link, RemoteSpan from, void* to) {
  std::memcpy(to, reinterpret_cast<const void*>(from.address), from.n_bytes);
  return {};
}

bool SelfWire::drained() const { return true; }

}  // namespace rlx
