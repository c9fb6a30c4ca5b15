// SPDX-License-Identifier: MIT OR Apache-2.0
// One connection of the tree: frames both ways over a pair of descriptors, with a heartbeat.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "base/fd.h"
#include "launcher/frame.h"
#include "launcher/loop.h"

namespace rlx::launcher {

// What a daemon says before its first frame, as a line of its own: whatever a shell printed before
// it is skipped.
std::string greeting_line();
// The version a greeting names, "" when it is ours (with our protocol); nothing when `line` is no
// greeting.
std::optional<std::string> strange_version(std::string_view line);

// Why a link is down.
struct LinkEnd {
  bool closed = true;  // by the other side, or the system between; else for what it did or did not
  std::string cause;
};

// None of these but down() may destroy the link.
struct LinkCalls {
  std::function<void()> greeted;  // only where a greeting is awaited
  std::function<void(Frame frame)> frame;
  // Once, from the loop: nothing comes and goes any more.
  std::function<void(const LinkEnd& end)> down;
  // Half of the time has passed after which silence is an end. May be left out.
  std::function<void(double silent_s, double limit_s)> silent = nullptr;
};

class Link {
 public:
  // `in` and `out` may be the same descriptor, then with `out` a duplicate.
  Link(Loop& loop, Fd in, Fd out, LinkCalls calls);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // Skips everything up to the greeting. Not for more than a megabyte.
  void await_greeting() { awaits_greeting_ = true; }
  // From now on something is sent at least every `period_s`, and expected from the other side: six
  // periods without anything, and the link is down.
  void start_heartbeat(double period_s);
  // The other side is to say at once that it is there: as many periods of kAnswerPeriod without a
  // byte, and the link is down, as if it had been closed.
  static constexpr double kAnswerPeriod = 1.5;
  void demand_answer(int n_periods);
  // The other side may be stopped and silent until it is heard again.
  void forgive_silence() { forgiving_ = true; }
  void send(FrameBytes bytes);
  void send(const Frame& frame) { send(encode(frame)); }
  // Ends it without a call of down().
  void close();

 private:
  void read_some();
  bool skip_to_greeting(std::string_view& bytes);
  void write_some();
  void beat();
  void await_answer(int n_periods);
  void hear_ping(const Frame& ping);
  void go_down(LinkEnd end);

  Loop& loop_;
  Fd in_, out_;
  LinkCalls calls_;
  FrameReader reader_;
  bool awaits_greeting_ = false, forgiving_ = false;
  std::string noise_;  // an unfinished line before the greeting
  std::size_t n_noise_ = 0;
  std::deque<FrameBytes> queue_;
  std::size_t n_written_ = 0;  // of queue_.front()
  double period_s_ = 0;
  int silent_periods_ = 0, periods_without_answer_ = 0;
  bool sent_ = false;
  Watch readable_, writable_, heartbeat_, answer_, going_down_;
};

}  // namespace rlx::launcher
