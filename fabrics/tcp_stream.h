// SPDX-License-Identifier: MIT OR Apache-2.0
// The two directions of one established connection.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "fabrics/tcp_frame.h"
#include "fabrics/wire.h"

namespace rlx::tcp {

// What one system call on a socket came to.
enum class Moved {
  all,      // as much as was asked for: there may be more
  some,     // less: the socket is empty (reading) or full (writing) now
  stopped,  // the connection ended or broke: why() says how
};

// Frames on their way out. A frame goes straight from the caller's memory while the socket takes
// it; what is left waits here: heads and payloads without a cookie as a copy, payloads with one
// where they are.
class OutStream {
 public:
  // fd < 0: not connected yet, everything waits.
  Posted post(int fd, const Frame& frame);
  // Writes what waits. Cookies of payloads that left are given to `sink`, counted in `n_sent`.
  Moved flush(int fd, Link peer, Sink& sink, int& n_sent);
  // Best effort, after everything else has left.
  void say_bye(int fd);

  // Nothing more leaves, and what waits in the callers' memory is forgotten.
  void give_up();

  bool empty() const { return pieces_.empty(); }
  // errno of a write that failed, 0 if none did. The stream takes nothing after that.
  int error() const { return error_; }

 private:
  struct Piece {
    const char* outside;  // nullptr: in copies_ at `offset`
    std::size_t offset;
    std::size_t n_bytes;
    std::uint64_t cookie;  // 0: nobody waits for it
  };
  void queue_copy(const void* bytes, std::size_t n_bytes);
  void queue_rest(const Frame& frame, const unsigned char* header, std::size_t n_gone);
  bool has_room(const Frame& frame) const;
  void drop_front(std::size_t n_gone, Link peer, Sink& sink, int& n_sent);

  std::deque<Piece> pieces_;
  std::vector<char> copies_;   // emptied when pieces_ is
  std::size_t n_outside_ = 0;  // bytes of pieces_ that are the caller's
  std::uint32_t serial_ = 0;
  int error_ = 0;
};

// Frames on their way in. Reads ahead, so that small frames cost one system call or less; the body
// of a frame that has not arrived whole is read straight to where Sink::place() wants it.
class InStream {
 public:
  // One read; delivers the frames that it completed, counted in `n_frames`.
  Moved read(int fd, Link peer, Sink& sink, int& n_frames);
  // Empty: the peer closed the connection without a word.
  const std::string& why() const { return why_; }
  bool said_bye() const { return bye_; }
  // What is still to come of a body goes to memory of our own.
  void divert();

 private:
  Moved read_ahead(int fd);
  Moved read_body(int fd);
  bool parse(Link peer, Sink& sink, int& n_frames);
  void begin_body(const FrameHeader& header, Link peer, Sink& sink);
  void finish_body(Link peer, Sink& sink, int& n_frames);
  Moved stop(std::string why);

  std::unique_ptr<char[]> ahead_;
  std::size_t begin_ = 0, end_ = 0;  // unread bytes of ahead_
  // The frame whose body is being read; body_ == nullptr: none.
  FrameHeader header_;
  char ext_[kMaxExt];
  char* body_ = nullptr;
  std::size_t n_body_ = 0;   // bytes of it that are there
  std::vector<char> spill_;  // for bodies that nobody wants to place
  std::uint32_t serial_ = 0;
  std::uint64_t n_read_ = 0;  // for messages: where a stream went wrong
  std::string why_;
  bool bye_ = false;
};

}  // namespace rlx::tcp
