// SPDX-License-Identifier: MIT OR Apache-2.0
// Lines of many ranks on one output, never mixed within a line.
//
// A line longer than a rank may keep back arrives in pieces. Its writer then owns the output until
// the line ends, and what others have is held; flow control bounds what they can send meanwhile. An
// owner that falls silent loses the output, so that a rank which waits for another one cannot block
// it.
//
// One stream may be that of a pseudo-terminal, which is written at once and as it is.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/lines.h"

namespace rlx::launcher {

class Terminal {
 public:
  using Key = std::uint64_t;  // names a stream of a rank; 0 is rlxrun itself
  // Gets bytes to write; `taken` is how much of the stream `key` they settle.
  using Sink = std::function<void(std::string bytes, Key key, std::size_t taken)>;
  // Gives what each line of this stream begins with.
  using Prefix = std::function<std::string(Key key)>;

  // Gives whole lines that stand for this text.
  using Record = std::function<std::string(Key key, const Text& text)>;

  Terminal(Sink sink, Prefix prefix) : sink_(std::move(sink)), prefix_(std::move(prefix)) {}

  // What ranks write is shown as records.
  void show_records(Record record) { record_ = std::move(record); }

  // This one waits for nobody, and nothing is added to it; others end their lines as a terminal in
  // raw mode needs it if `raw`.
  void pass_through(Key key, bool raw);
  void write(Key key, Text text);
  // No more comes from this stream.
  void close(Key key);
  // The owner has been silent for long enough: others may have the output.
  void owner_is_silent();
  // Whether somebody waits for the owner.
  bool has_held() const { return !held_.empty(); }
  // Counts writes of the owner, to see silence by.
  std::uint64_t owner_writes() const { return owner_writes_; }

 private:
  struct Held {
    Key key;
    Text text;
  };
  void put(Key key, Text text);
  void put_record(Key key, const Text& text);
  std::string in_lines(Key key, std::string bytes);
  void release();

  Sink sink_;
  Prefix prefix_;
  Record record_;
  std::optional<Key> owner_, passing_;
  bool raw_ = false;
  Key last_ = 0;
  bool at_line_start_ = true;
  std::uint64_t owner_writes_ = 0;
  std::deque<Held> held_;
};

}  // namespace rlx::launcher
