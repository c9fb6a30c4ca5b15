// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/loop.h"

#include <event2/event.h>
#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

namespace rlx::launcher {

Watch::State::~State() {
  if (registration) event_free(registration);
}

void Watch::State::add() {
  const auto try_to = [this] {
    return event_add(registration, event_get_fd(registration) < 0 ? &time : nullptr) == 0;
  };
  if (try_to()) return;
  // A read or write says what is there, or what is wrong.
  event_assign(registration, event_get_base(registration), -1, EV_PERSIST,
               event_get_callback(registration), this);
  time.tv_usec = 1;  // 0 would not come again
  try_to();
}

void Watch::pause() {
  if (!state_ || state_->paused) return;
  event_del(state_->registration);
  state_->paused = true;
}

void Watch::resume() {
  if (!state_ || !state_->paused) return;
  state_->add();
  state_->paused = false;
}

Loop::Loop() : base_(event_base_new()) {
  // What it warns of, add() sees.
  event_set_log_callback([](int severity, const char* text) {
    if (severity == EVENT_LOG_ERR) fmt::print(stderr, "rlxrun: libevent: {}\n", text);
  });
  if (!base_) throw std::runtime_error("libevent cannot start");  // no memory, no descriptors
}
Loop::~Loop() { event_base_free(base_); }
void Loop::run() {
  if (!stopped_) event_base_dispatch(base_);
}
void Loop::stop() {
  stopped_ = true;
  event_base_loopbreak(base_);
}

Watch Loop::watch(int fd, short what, double seconds, std::function<void()> call) {
  Watch watch;
  watch.state_ = std::make_shared<Watch::State>();
  watch.state_->call = std::move(call);
  const auto trampoline = [](evutil_socket_t, short, void* argument) {
    // The callback may destroy the registration that holds it.
    const auto keep = static_cast<Watch::State*>(argument)->call;
    keep();
  };
  watch.state_->registration = event_new(base_, fd, what, trampoline, watch.state_.get());
  watch.state_->time.tv_sec = static_cast<time_t>(seconds);
  watch.state_->time.tv_usec = static_cast<suseconds_t>((seconds - std::floor(seconds)) * 1e6);
  watch.state_->add();
  return watch;
}

Watch Loop::on_readable(int fd, std::function<void()> call) {
  return watch(fd, EV_READ | EV_PERSIST, 0, std::move(call));
}
Watch Loop::on_writable(int fd, std::function<void()> call) {
  return watch(fd, EV_WRITE | EV_PERSIST, 0, std::move(call));
}
Watch Loop::after(double seconds, std::function<void()> call) {
  return watch(-1, 0, seconds, std::move(call));
}

}  // namespace rlx::launcher
