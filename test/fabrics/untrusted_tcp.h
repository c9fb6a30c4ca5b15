// SPDX-License-Identifier: MIT OR Apache-2.0
// What the TCP wire reads from the network, given bytes that nobody vouches for. Shared by the
// fuzzer and by the seeded inputs of the normal suite.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fabrics/tcp_address.h"
#include "fabrics/tcp_frame.h"
#include "fabrics/tcp_greeting.h"
#include "fabrics/tcp_socket.h"
#include "fabrics/tcp_stream.h"

namespace rlx::test {

using Bytes = std::vector<unsigned char>;

// Every second body is placed, in memory that is not a byte longer than it must be.
class CountingSink final : public Sink {
 public:
  int n_frames = 0;
  void* place(Link, const FrameView& head) override {
    if (head.pay || head.n_ext > tcp::kMaxExt || head.n_pay > tcp::kMaxPay) std::abort();
    if (++n_places_ % 2) return nullptr;
    placed_ = std::make_unique<char[]>(head.n_pay);
    return placed_.get();
  }
  void on_frame(Link, const FrameView& frame) override {
    const char* const ends[] = {frame.ext + frame.n_ext, frame.pay + frame.n_pay};
    for (const char* p = frame.ext; p != ends[0]; ++p) sum_ = sum_ + *p;
    for (const char* p = frame.pay; p != ends[1]; ++p) sum_ = sum_ + *p;
    ++n_frames;
  }
  void on_sent(Link, std::uint64_t) override {}
  void on_down(Link, const Error&) override {}

 private:
  int n_places_ = 0;
  std::unique_ptr<char[]> placed_;
  volatile long sum_ = 0;  // so that sanitizers see each byte
};

// Gives `bytes` to a stream in pieces of `n_piece`; true if it took them all without complaint.
inline bool read_stream(const Bytes& bytes, std::size_t n_piece, CountingSink& sink,
                        std::string* why = nullptr) {
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) std::abort();
  const Fd writer(pair[0]), reader(pair[1]);
  tcp::InStream in;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t n = std::min(n_piece, bytes.size() - at);
    const ssize_t written = ::send(writer.get(), &bytes[at], n, MSG_NOSIGNAL);
    if (written > 0) at += static_cast<std::size_t>(written);
    int n_frames = 0;
    const int before = sink.n_frames;
    const tcp::Moved moved = in.read(reader.get(), 0, sink, n_frames);
    if (sink.n_frames - before != n_frames) std::abort();
    if (moved != tcp::Moved::stopped) continue;
    if (why) *why = in.said_bye() ? "bye" : in.why();
    return false;
  }
  int n_frames = 0;
  tcp::Moved moved;
  do moved = in.read(reader.get(), 0, sink, n_frames);
  while (moved == tcp::Moved::all);
  if (why) *why = in.said_bye() ? "bye" : in.why();
  return moved == tcp::Moved::some;
}

// Makes the headers in `bytes` pass the check, so that what lies behind it is reached.
inline Bytes repaired(Bytes bytes) {
  std::uint32_t serial = 0;
  for (std::size_t at = 0; at + tcp::kFrameHeaderBytes <= bytes.size();) {
    tcp::FrameHeader header;
    header.type = bytes[at + 4];
    std::memcpy(&header.n_ext, &bytes[at + 6], 2);
    std::memcpy(&header.tag, &bytes[at + 8], 8);
    std::memcpy(&header.n_pay, &bytes[at + 16], 8);
    header.n_ext %= tcp::kMaxExt + 1;
    header.n_pay %= bytes[at] % 8 ? bytes.size() : tcp::kMaxPay + 1;
    header.serial = serial++;
    tcp::encode_frame_header(header, &bytes[at]);
    at += tcp::kFrameHeaderBytes + header.n_ext + header.n_pay;
  }
  return bytes;
}

inline void try_untrusted(const Bytes& bytes) {
  (void)tcp::decode_published({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (bytes.size() >= tcp::kGreetingBytes) {
    tcp::GreetingBytes greeting;
    std::memcpy(greeting.data(), bytes.data(), greeting.size());
    tcp::Greeting out;
    if (!tcp::decode_greeting(greeting, out) && (out.from < 0 || out.to < 0)) std::abort();
  }
  const std::size_t n_piece = 1 + (bytes.empty() ? 0 : bytes[0] * std::size_t{97});
  CountingSink sink;
  read_stream(bytes, n_piece, sink);
  read_stream(repaired(bytes), n_piece, sink);
}

// A frame of `n_pay` bytes, or as many as one may have.
inline void append_frame(Bytes& out, std::uint32_t serial, std::uint16_t n_ext, std::uint64_t n_pay,
                         tcp::FrameKind kind = tcp::FrameKind::data) {
  unsigned char header[tcp::kFrameHeaderBytes];
  tcp::encode_frame_header(
      {.kind = kind, .type = 7, .n_ext = n_ext, .tag = serial, .n_pay = n_pay, .serial = serial},
      header);
  out.insert(out.end(), header, header + sizeof header);
  out.insert(out.end(), n_ext + std::min<std::uint64_t>(n_pay, tcp::kMaxPay), 'p');
}

inline tcp::SocketAddress socket_at(const char* ip, std::uint16_t port, bool host_local = false) {
  return {parse_ip(ip).value(), port, host_local};
}

}  // namespace rlx::test
