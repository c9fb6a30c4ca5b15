// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/terminal.h"

#include <algorithm>

namespace rlx::launcher {
void Terminal::write(Key key, Text text) {
  if (owner_ && *owner_ != key) {
    held_.push_back({key, std::move(text)});
    return;
  }
  put(key, std::move(text));
  release();
}

void Terminal::put(Key key, Text text) {
  if (text.bytes.empty()) return;
  const std::size_t taken = text.bytes.size();
  const bool whole = text.whole || text.bytes.back() == '\n';
  std::string bytes;
  if (!at_line_start_ && last_ != key) {
    bytes = "\n";
    at_line_start_ = true;
  }
  const std::string prefix = prefix_(key);
  bytes += prefix.empty() ? std::move(text.bytes) : with_prefix(text.bytes, prefix, at_line_start_);
  at_line_start_ = whole;
  last_ = key;
  owner_ = whole ? std::nullopt : std::optional(key);
  if (owner_) ++owner_writes_;
  sink_(std::move(bytes), key, taken);
}

void Terminal::release() {
  while (true) {
    const auto next = std::find_if(held_.begin(), held_.end(), [&](const Held& held) {
      return !owner_ || held.key == *owner_;
    });
    if (next == held_.end()) return;
    Held held = std::move(*next);
    held_.erase(next);
    put(held.key, std::move(held.text));
  }
}

void Terminal::close(Key key) {
  if (owner_ != key) return;
  owner_.reset();
  release();
}

void Terminal::owner_is_silent() {
  owner_.reset();
  release();
}

}  // namespace rlx::launcher
