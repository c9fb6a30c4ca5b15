// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages between the processes of the tests' launcher, over a socket pair.
#pragma once

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace rlx::test {

class Channel {
 public:
  using Message = nlohmann::json;

  explicit Channel(int fd) : fd_(fd) { ::fcntl(fd, F_SETFL, O_NONBLOCK); }
  ~Channel() { close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  int fd() const { return fd_; }                                                 // -1: closed
  short events() const { return static_cast<short>(out_.empty() ? 1 : 1 | 4); }  // POLLIN, POLLOUT

  // Never blocks: two that write to each other must both be able to read.
  void send(const Message& message) {
    std::vector<std::uint8_t> bytes = Message::to_cbor(message);
    const auto n = static_cast<std::uint32_t>(bytes.size());
    out_.append(reinterpret_cast<const char*>(&n), sizeof n);
    out_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    flush();
  }
  void flush() {
    while (!out_.empty() && fd_ >= 0) {
      const ssize_t n = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
      if (n < 0) return;
      out_.erase(0, static_cast<size_t>(n));
    }
  }
  // What has come; false: the other end is gone.
  bool receive(std::vector<Message>& messages) {
    char buffer[65536];
    ssize_t n;
    while ((n = ::read(fd_, buffer, sizeof buffer)) > 0) in_.append(buffer, static_cast<size_t>(n));
    const bool open = n < 0 && errno == EAGAIN;
    std::uint32_t size = 0;
    size_t at = 0;
    while (in_.size() - at >= sizeof size) {
      std::memcpy(&size, in_.data() + at, sizeof size);
      if (in_.size() - at - sizeof size < size) break;
      const char* const begin = in_.data() + at + sizeof size;
      messages.push_back(Message::from_cbor(begin, begin + size));
      at += sizeof size + size;
    }
    in_.erase(0, at);
    return open;
  }

 private:
  int fd_;
  std::string in_, out_;
};

inline nlohmann::json as_binary(const std::string& bytes) {
  return nlohmann::json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
}
inline std::string from_binary(const nlohmann::json& value) {
  const auto& bytes = value.get_binary();
  return {bytes.begin(), bytes.end()};
}

}  // namespace rlx::test
