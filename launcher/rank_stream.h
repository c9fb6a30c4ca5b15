// SPDX-License-Identifier: MIT OR Apache-2.0
// The node's ends of a rank's pipes or pseudo-terminal: output cut into whole lines (that of a
// terminal passes as it comes), input with a bound on what waits.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "launcher/lines.h"
#include "launcher/loop.h"
#include "launcher/node.h"

namespace rlx::launcher {

enum class Channel { kPipe, kTerminal };

class OutputStream;
class InputStream;

class StreamOwner {
 public:
  virtual ~StreamOwner() = default;
  // True: it is on its way, and taken() will settle or has settled it.
  virtual bool text(OutputStream& stream, Text text) = 0;
  // Both may destroy the stream.
  virtual void ended(OutputStream& stream) = 0;
  virtual void input_taken(InputStream& stream, std::size_t n_bytes, bool closed) = 0;
};

class OutputStream {
 public:
  OutputStream(Loop& loop, StreamOwner& owner, RankId rank, Stream stream, Fd fd,
               const OutputSpec& spec, Channel channel = Channel::kPipe);
  RankId rank() const { return rank_; }
  Stream stream() const { return stream_; }
  bool is_open() const { return static_cast<bool>(fd_); }
  void taken(std::size_t n_bytes);
  // Reads what is there, as far as the window allows.
  void catch_up();
  // Reads what is there and ends, whoever still holds the other end. False: the head must first
  // take what is on its way.
  bool close_now();

 private:
  // Whether more may come.
  bool read_once();
  void give(Text text);
  void give_lines(std::string_view bytes);
  void expect_rest();
  void end();

  Loop& loop_;
  StreamOwner& owner_;
  RankId rank_;
  Stream stream_;
  Fd fd_;
  Channel channel_;
  LineAssembler lines_;
  bool show_prompts_;
  std::size_t window_, under_way_ = 0;
  Watch readable_, prompt_;
};

class InputStream {
 public:
  InputStream(Loop& loop, StreamOwner& owner, RankId rank, Fd fd, Channel channel = Channel::kPipe);
  RankId rank() const { return rank_; }
  int fd() const { return fd_.get(); }
  void write(std::string bytes);
  // After what was written so far. The rank finds the end of its input whenever it reads.
  void end();

 private:
  void write_some();
  void finish();
  void close();

  Loop& loop_;
  StreamOwner& owner_;
  RankId rank_;
  Fd fd_;
  Channel channel_;
  std::string pending_;
  bool ending_ = false;
  Watch writable_, end_again_;
};

}  // namespace rlx::launcher
