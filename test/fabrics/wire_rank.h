// SPDX-License-Identifier: MIT OR Apache-2.0
// One rank of a test that drives a wire directly, without an endpoint above it.
#pragma once

#include <sched.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "fabrics/wire.h"
#include "test/support/fork_world.h"

namespace rlx::test {

// Bytes that make misplaced, repeated and torn payloads visible.
class Pattern {
 public:
  explicit Pattern(std::size_t n_bytes) : bytes_(n_bytes + kSpread) {
    std::mt19937_64 random(42);
    for (std::size_t i = 0; i + 8 <= bytes_.size(); i += 8) {
      const std::uint64_t word = random();
      std::memcpy(&bytes_[i], &word, 8);
    }
  }
  const char* of(std::uint64_t serial) const { return &bytes_[(serial * 997) % kSpread]; }

 private:
  static constexpr std::size_t kSpread = 65536;
  std::vector<char> bytes_;
};

// A sink made of functions; what a test does not set is ignored.
class TestSink final : public Sink {
 public:
  std::function<void*(Link, const FrameView&)> place_hook;
  std::function<void(Link, const FrameView&)> frame_hook;
  std::map<std::uint64_t, int> sent;  // cookie -> times
  std::map<Link, std::string> down;
  std::map<Link, int> n_down;

  void* place(Link from, const FrameView& head) override {
    return place_hook ? place_hook(from, head) : nullptr;
  }
  void on_frame(Link from, const FrameView& frame) override {
    if (frame_hook) frame_hook(from, frame);
  }
  void on_sent(Link, std::uint64_t cookie) override { ++sent[cookie]; }
  void on_down(Link peer, const Error& why) override {
    down[peer] = why.text;
    ++n_down[peer];
  }
};

class WireRank {
 public:
  WireRank(Bootstrap& boot, std::unique_ptr<Wire> wire) : boot_(boot), wire_(std::move(wire)) {
    RLX_EXPECT_OK(boot.put(wire_->address()));
    RLX_EXPECT_OK(boot.fence(Deadline::after_ms(30000)));
    for (Link peer = 0; peer < size(); ++peer) {
      if (peer == rank() && size() > 1) continue;
      RLX_EXPECT_OK(wire_->connect(peer, boot.get(peer).value()));
    }
  }

  Link rank() const { return boot_.facts().rank; }
  Link size() const { return boot_.facts().size; }
  Wire& wire() { return *wire_; }

  bool turn() {
    const bool moved = wire_->progress(sink) > 0;
    const std::int64_t now = now_ns();
    if (now - checked_ns_ > 50000000) {
      checked_ns_ = now;
      wire_->check(sink);
    }
    return moved;
  }
  // Makes progress until done() holds; a test that waits longer than this has found a hang.
  void until(const std::function<bool()>& done, const char* what, int timeout_ms = 30000) {
    const Deadline deadline = Deadline::after_ms(timeout_ms);
    while (!done()) {
      if (!turn()) sched_yield();
      RLX_EXPECT(!deadline.passed(), "{} did not happen in {} ms", what, timeout_ms);
    }
  }
  Posted post(Link peer, const Frame& frame) {
    Posted posted = Posted::kFull;
    until([&] { return (posted = wire_->post(peer, frame)) != Posted::kFull; }, "room for a frame");
    return posted;
  }
  void meet() { RLX_EXPECT_OK(boot_.fence(Deadline::after_ms(30000))); }
  // As a program ends: everything has left before anybody goes.
  void finish() {
    until([&] { return wire_->drained(); }, "draining");
    meet();
  }

  TestSink sink;

 private:
  Bootstrap& boot_;
  std::unique_ptr<Wire> wire_;
  std::int64_t checked_ns_ = 0;
};

}  // namespace rlx::test
