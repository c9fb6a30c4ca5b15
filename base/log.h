// SPDX-License-Identifier: MIT OR Apache-2.0
// One line a message on stderr: "rlx: [rank@host] text". The level comes from the knob RLX_LOG.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace rlx::log {

enum class Level { error, warn, info, debug };

bool enabled(Level level);
void set_level(Level level);
// Shown in every later line; the world sets "3@node1" once it knows.
void set_who(std::string who);
void write(Level level, std::string_view text);

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::debug)) write(Level::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace rlx::log
