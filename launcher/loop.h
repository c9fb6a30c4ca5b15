// SPDX-License-Identifier: MIT OR Apache-2.0
// The event loop of the launcher: callbacks for descriptors and times, as objects that unregister
// themselves.
#pragma once

#include <sys/time.h>

#include <functional>
#include <memory>

struct event;
struct event_base;

namespace rlx::launcher {

// A registration. Destroying it ends it, also from inside its own callback.
class Watch {
 public:
  Watch() = default;
  Watch(Watch&& other) noexcept = default;
  Watch& operator=(Watch&& other) noexcept = default;
  explicit operator bool() const { return state_ != nullptr; }
  // Stops and resumes calls without forgetting the callback.
  void pause();
  void resume();
  void reset() { state_.reset(); }

 private:
  friend class Loop;
  struct State {
    event* registration = nullptr;
    timeval time{};  // of one that waits for no descriptor
    std::function<void()> call;
    bool paused = false;
    ~State();
    void add();
  };
  std::shared_ptr<State> state_;
};

class Loop {
 public:
  Loop();
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // What cannot be watched (a file, /dev/null) is always ready.
  Watch on_readable(int fd, std::function<void()> call);
  Watch on_writable(int fd, std::function<void()> call);
  // Once, after `seconds`.
  Watch after(double seconds, std::function<void()> call);
  // Until stop(), also one that came before.
  void run();
  void stop();

 private:
  Watch watch(int fd, short what, double seconds, std::function<void()> call);
  event_base* base_;
  bool stopped_ = false;
};

}  // namespace rlx::launcher
