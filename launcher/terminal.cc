// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/terminal.h"

#include <algorithm>

namespace rlx::launcher {

void Terminal::pass_through(Key key, bool raw) {
  passing_ = key;
  raw_ = raw;
}

void Terminal::write(Key key, Text text) {
  if (owner_ && *owner_ != key && passing_ != key) {
    held_.push_back({key, std::move(text)});
    return;
  }
  put(key, std::move(text));
  release();
}

void Terminal::put(Key key, Text text) {
  if (text.bytes.empty()) return;
  if (record_ && key != 0) return put_record(key, text);
  const std::size_t taken = text.bytes.size();
  const bool whole = text.whole || text.bytes.back() == '\n';
  std::string bytes =
      passing_ == key ? std::move(text.bytes) : in_lines(key, std::move(text.bytes));
  at_line_start_ = whole;
  last_ = key;
  owner_ = whole ? std::nullopt : std::optional(key);
  if (owner_) ++owner_writes_;
  sink_(std::move(bytes), key, taken);
}

void Terminal::put_record(Key key, const Text& text) {
  last_ = key;
  sink_(record_(key, text), key, text.bytes.size());
}

// On a line of its own, with the prefix.
std::string Terminal::in_lines(Key key, std::string bytes) {
  const bool breaks = !at_line_start_ && last_ != key;
  std::string out = breaks ? "\n" : "";
  const std::string prefix = prefix_(key);
  out += prefix.empty() ? std::move(bytes) : with_prefix(bytes, prefix, breaks || at_line_start_);
  return raw_ ? with_returns(out) : out;
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
