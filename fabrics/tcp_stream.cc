// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/tcp_stream.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>

namespace rlx::tcp {
namespace {

// A frame up to here is gathered on the stack: one flat send() is cheaper than an iovec of three.
constexpr std::size_t kFlatBytes = 4096;
// Bound on what waits as a copy in one link; a frame that does not fit is kFull.
constexpr std::size_t kMaxCopies = 2 * (kFrameHeaderBytes + kMaxExt + kMaxPay);
// Bound on bytes that wait in the caller's memory: more would only stand in the way of a small
// frame behind them.
constexpr std::size_t kMaxOutside = 2 * kMaxPay;
constexpr std::size_t kIovs = 64;
constexpr std::size_t kReadAhead = 64 * 1024;
// While a body is read, only so much of what follows it: a large next frame is better read straight
// to its own place.
constexpr std::size_t kTail = 4096;

std::size_t size_of(const Frame& frame) { return kFrameHeaderBytes + frame.n_ext + frame.n_pay; }

ssize_t send_vector(int fd, iovec* iov, std::size_t n) {
  msghdr message = {};
  message.msg_iov = iov;
  message.msg_iovlen = n;
  ssize_t sent;
  do sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent;
}

// Tries to send the whole frame at once; bytes that left, or -1 with errno.
ssize_t send_frame(int fd, const Frame& frame, const unsigned char* header) {
  const std::size_t n = size_of(frame);
  if (n <= kFlatBytes) {
    char flat[kFlatBytes];
    memcpy(flat, header, kFrameHeaderBytes);
    if (frame.n_ext) memcpy(flat + kFrameHeaderBytes, frame.ext, frame.n_ext);
    if (frame.n_pay) memcpy(flat + kFrameHeaderBytes + frame.n_ext, frame.pay, frame.n_pay);
    ssize_t sent;
    do sent = ::send(fd, flat, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent;
  }
  iovec iov[3] = {{const_cast<unsigned char*>(header), kFrameHeaderBytes},
                  {const_cast<void*>(frame.ext), frame.n_ext},
                  {const_cast<void*>(frame.pay), frame.n_pay}};
  return send_vector(fd, iov, 3);
}

}  // namespace

// --- Out ---

bool OutStream::has_room(const Frame& frame) const {
  const std::size_t n_outside = frame.cookie ? frame.n_pay : 0;
  return copies_.size() + size_of(frame) - n_outside <= kMaxCopies &&
         n_outside_ + n_outside <= kMaxOutside;
}

Posted OutStream::post(int fd, const Frame& frame) {
  if (error_ || !has_room(frame)) return Posted::kFull;
  unsigned char header[kFrameHeaderBytes];
  encode_frame_header({.kind = FrameKind::data,
                       .type = frame.type,
                       .n_ext = static_cast<std::uint16_t>(frame.n_ext),
                       .tag = frame.tag,
                       .n_pay = frame.n_pay,
                       .serial = serial_},
                      header);
  std::size_t n_gone = 0;
  if (fd >= 0 && pieces_.empty()) {
    const ssize_t sent = send_frame(fd, frame, header);
    if (sent < 0 && errno != EAGAIN) {
      error_ = errno;
      return Posted::kFull;
    }
    n_gone = sent < 0 ? 0 : static_cast<std::size_t>(sent);
  }
  ++serial_;
  if (n_gone == size_of(frame)) return Posted::kDone;
  queue_rest(frame, header, n_gone);
  return frame.cookie && frame.n_pay ? Posted::kPending : Posted::kDone;
}

void OutStream::queue_copy(const void* bytes, std::size_t n_bytes) {
  if (n_bytes == 0) return;
  const bool joins = !pieces_.empty() && !pieces_.back().outside;
  if (joins)
    pieces_.back().n_bytes += n_bytes;
  else
    pieces_.push_back({nullptr, copies_.size(), n_bytes, 0});
  const char* const begin = static_cast<const char*>(bytes);
  copies_.insert(copies_.end(), begin, begin + n_bytes);
}

// Queues what is left of a frame of which n_gone bytes have left.
void OutStream::queue_rest(const Frame& frame, const unsigned char* header, std::size_t n_gone) {
  const auto skip = [&](std::size_t n) {
    const std::size_t skipped = std::min(n_gone, n);
    n_gone -= skipped;
    return skipped;
  };
  std::size_t done = skip(kFrameHeaderBytes);
  queue_copy(header + done, kFrameHeaderBytes - done);
  done = skip(frame.n_ext);
  queue_copy(static_cast<const char*>(frame.ext) + done, frame.n_ext - done);
  done = skip(frame.n_pay);
  const char* const rest = static_cast<const char*>(frame.pay) + done;
  if (!frame.cookie || !frame.n_pay) return queue_copy(rest, frame.n_pay - done);
  pieces_.push_back({rest, 0, frame.n_pay - done, frame.cookie});
  n_outside_ += frame.n_pay - done;
}

Moved OutStream::flush(int fd, Link peer, Sink& sink, int& n_sent) {
  iovec iov[kIovs];
  const std::size_t n = std::min(kIovs, pieces_.size());
  std::size_t n_asked = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Piece& piece = pieces_[i];
    const char* const from = piece.outside ? piece.outside : copies_.data() + piece.offset;
    iov[i] = {const_cast<char*>(from), piece.n_bytes};
    n_asked += piece.n_bytes;
  }
  const ssize_t sent = send_vector(fd, iov, n);
  if (sent < 0) {
    if (errno == EAGAIN) return Moved::some;
    error_ = errno;
    return Moved::stopped;
  }
  drop_front(static_cast<std::size_t>(sent), peer, sink, n_sent);
  return static_cast<std::size_t>(sent) == n_asked ? Moved::all : Moved::some;
}

void OutStream::drop_front(std::size_t n_gone, Link peer, Sink& sink, int& n_sent) {
  while (n_gone > 0) {
    Piece& piece = pieces_.front();
    const std::size_t n = std::min(n_gone, piece.n_bytes);
    n_gone -= n;
    piece.n_bytes -= n;
    if (piece.outside) {
      piece.outside += n;
      n_outside_ -= n;
    } else {
      piece.offset += n;
    }
    if (piece.n_bytes > 0) return;
    const std::uint64_t cookie = piece.cookie;
    pieces_.pop_front();
    if (pieces_.empty()) copies_.clear();
    if (!cookie) continue;
    ++n_sent;
    sink.on_sent(peer, cookie);  // may post: all is consistent here
  }
}

void OutStream::say_bye(int fd) {
  if (error_ || !pieces_.empty()) return;
  unsigned char header[kFrameHeaderBytes];
  encode_frame_header({.kind = FrameKind::bye, .serial = serial_}, header);
  (void)::send(fd, header, sizeof header, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void OutStream::give_up() {
  error_ = ECANCELED;
  pieces_.clear();
  copies_.clear();
  n_outside_ = 0;
}

// --- In ---

Moved InStream::stop(std::string why) {
  why_ = std::move(why);
  return Moved::stopped;
}

Moved InStream::read(int fd, Link peer, Sink& sink, int& n_frames) {
  const Moved moved = body_ ? read_body(fd) : read_ahead(fd);
  if (moved == Moved::stopped) return moved;
  if (body_ && n_body_ == header_.n_pay) finish_body(peer, sink, n_frames);
  if (!body_ && !parse(peer, sink, n_frames)) return Moved::stopped;
  return moved;
}

Moved InStream::read_ahead(int fd) {
  if (!ahead_) ahead_ = std::make_unique<char[]>(kReadAhead);
  if (begin_ > 0) {  // less than a header and ext
    memmove(ahead_.get(), ahead_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t n_room = kReadAhead - end_;
  const ssize_t n = ::recv(fd, ahead_.get() + end_, n_room, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Moved::some : stop(strerror(errno));
  if (n == 0) return stop("");
  n_read_ += static_cast<std::uint64_t>(n);
  end_ += static_cast<std::size_t>(n);
  return static_cast<std::size_t>(n) == n_room ? Moved::all : Moved::some;
}

// The body to its place and what follows it to ahead_, which is empty then.
Moved InStream::read_body(int fd) {
  const std::size_t n_left = header_.n_pay - n_body_;
  iovec iov[2] = {{body_ + n_body_, n_left}, {ahead_.get(), kTail}};
  const ssize_t n = ::readv(fd, iov, 2);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? Moved::some : stop(strerror(errno));
  if (n == 0) return stop("");
  n_read_ += static_cast<std::uint64_t>(n);
  const auto n_got = static_cast<std::size_t>(n);
  n_body_ += std::min(n_got, n_left);
  begin_ = 0;
  end_ = n_got > n_left ? n_got - n_left : 0;
  return n_got == n_left + kTail ? Moved::all : Moved::some;
}

// Delivers all whole frames of ahead_; false if the stream ended or makes no sense.
bool InStream::parse(Link peer, Sink& sink, int& n_frames) {
  while (end_ - begin_ >= kFrameHeaderBytes) {
    const char* const at = ahead_.get() + begin_;
    FrameHeader header;
    const char* const wrong =
        decode_frame_header(reinterpret_cast<const unsigned char*>(at), serial_, header);
    if (wrong) {
      stop(fmt::format("its stream is corrupt at byte {}: {}", n_read_ - (end_ - begin_), wrong));
      return false;
    }
    if (header.kind == FrameKind::bye) {
      bye_ = true;
      stop("");
      return false;
    }
    if (end_ - begin_ < kFrameHeaderBytes + header.n_ext) return true;
    ++serial_;
    begin_ += kFrameHeaderBytes + header.n_ext;
    if (end_ - begin_ < header.n_pay) {
      memcpy(ext_, at + kFrameHeaderBytes, header.n_ext);
      begin_body(header, peer, sink);
      return true;
    }
    const FrameView view = {.type = header.type,
                            .tag = header.tag,
                            .ext = at + kFrameHeaderBytes,
                            .n_ext = header.n_ext,
                            .pay = at + kFrameHeaderBytes + header.n_ext,
                            .n_pay = static_cast<std::uint32_t>(header.n_pay)};
    begin_ += header.n_pay;
    ++n_frames;
    sink.on_frame(peer, view);
  }
  if (begin_ == end_) begin_ = end_ = 0;
  return true;
}

void InStream::begin_body(const FrameHeader& header, Link peer, Sink& sink) {
  header_ = header;
  const FrameView head = {.type = header.type,
                          .tag = header.tag,
                          .ext = ext_,
                          .n_ext = header.n_ext,
                          .pay = nullptr,
                          .n_pay = static_cast<std::uint32_t>(header.n_pay)};
  body_ = static_cast<char*>(sink.place(peer, head));
  if (!body_) {
    if (spill_.size() < header.n_pay) spill_.resize(header.n_pay);
    body_ = spill_.data();
  }
  n_body_ = end_ - begin_;
  memcpy(body_, ahead_.get() + begin_, n_body_);
  begin_ = end_ = 0;
}

void InStream::divert() {
  if (!body_) return;
  if (spill_.size() < header_.n_pay) spill_.resize(header_.n_pay);
  body_ = spill_.data();
}

void InStream::finish_body(Link peer, Sink& sink, int& n_frames) {
  const FrameView view = {.type = header_.type,
                          .tag = header_.tag,
                          .ext = ext_,
                          .n_ext = header_.n_ext,
                          .pay = body_,
                          .n_pay = static_cast<std::uint32_t>(header_.n_pay)};
  body_ = nullptr;
  ++n_frames;
  sink.on_frame(peer, view);
}

}  // namespace rlx::tcp
