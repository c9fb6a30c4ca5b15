// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/log.h"

#include <unistd.h>

#include <atomic>
#include <mutex>

#include "base/knobs.h"

namespace rlx::log {
namespace {

std::atomic<int> g_level{-1};  // -1: not read from the knob yet
std::mutex g_who_mutex;
std::string g_who;

int level() {
  int value = g_level.load(std::memory_order_relaxed);
  if (value < 0) {
    value = static_cast<int>(knobs().log);
    g_level.store(value, std::memory_order_relaxed);
  }
  return value;
}

}  // namespace

bool enabled(Level wanted) { return static_cast<int>(wanted) <= level(); }
void set_level(Level wanted) { g_level.store(static_cast<int>(wanted), std::memory_order_relaxed); }

void set_who(std::string who) {
  const std::lock_guard lock(g_who_mutex);
  g_who = std::move(who);
}

void write(Level, std::string_view text) {
  std::string who;
  {
    const std::lock_guard lock(g_who_mutex);
    who = g_who;
  }
  // One write, so that lines of several processes on one stderr do not mix.
  const std::string line =
      who.empty() ? fmt::format("rlx: {}\n", text) : fmt::format("rlx: [{}] {}\n", who, text);
  [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace rlx::log
