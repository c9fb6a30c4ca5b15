// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/rank_stream.h"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "launcher/rank_terminal.h"

namespace rlx::launcher {
namespace {

constexpr std::size_t kLongestLine = 64 << 10;  // longer ones travel in pieces
constexpr std::size_t kLeastRead = 4 << 10;
constexpr double kPromptDelay = 0.2;  // a line this long unfinished is a prompt
constexpr double kEndAgain = 0.05;    // between two looks whether a terminal's reader wants more

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

OutputStream::OutputStream(Loop& loop, StreamOwner& owner, RankId rank, Stream stream, Fd fd,
                           const OutputSpec& spec, Channel channel)
    : loop_(loop),
      owner_(owner),
      rank_(rank),
      stream_(stream),
      fd_(std::move(fd)),
      channel_(channel),
      lines_(spec.return_ends_line, kLongestLine),
      show_prompts_(spec.return_ends_line),
      window_(spec.window) {
  set_nonblocking(fd_.get());
  readable_ = loop.on_readable(fd_.get(), [this] { read_once(); });
}

bool OutputStream::read_once() {
  static std::array<char, 64 << 10> buffer;  // one loop, one reader at a time
  const std::size_t most = std::clamp(window_, kLeastRead, buffer.size());
  const ssize_t n = read(fd_.get(), buffer.data(), most);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    end();
    return false;
  }
  const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
  if (channel_ == Channel::kTerminal)
    give({std::string(bytes), bytes.ends_with('\n')});
  else
    give_lines(bytes);
  return true;
}

void OutputStream::give_lines(std::string_view bytes) {
  for (auto& text : lines_.take(bytes)) give(std::move(text));
  expect_rest();
}

void OutputStream::give(Text text) {
  const std::size_t n_bytes = text.bytes.size();
  under_way_ += n_bytes;
  if (!owner_.text(*this, std::move(text))) under_way_ -= n_bytes;
  if (under_way_ > window_) readable_.pause();
}

void OutputStream::taken(std::size_t n_bytes) {
  under_way_ -= std::min(n_bytes, under_way_);
  if (under_way_ <= window_ / 2) readable_.resume();
}

void OutputStream::expect_rest() {
  if (!show_prompts_) return;
  if (!lines_.has_rest()) return prompt_.reset();
  prompt_ = loop_.after(kPromptDelay, [this] {
    if (lines_.has_rest()) give({lines_.flush(), false});
  });
}

void OutputStream::end() {
  readable_.reset();
  prompt_.reset();
  fd_.reset();
  if (lines_.has_rest()) owner_.text(*this, {lines_.flush(), false});
  owner_.ended(*this);
}

void OutputStream::catch_up() {
  constexpr int kMostReads = 32;  // more than a pipe holds: somebody is still writing
  for (int i = 0; i < kMostReads && fd_ && under_way_ <= window_; ++i)
    if (!read_once()) return;
}

bool OutputStream::close_now() {
  catch_up();
  if (under_way_ > window_) return false;
  if (fd_) end();
  return true;
}

InputStream::InputStream(Loop& loop, StreamOwner& owner, RankId rank, Fd fd, Channel channel)
    : loop_(loop), owner_(owner), rank_(rank), fd_(std::move(fd)), channel_(channel) {
  set_nonblocking(fd_.get());
  writable_ = loop.on_writable(fd_.get(), [this] { write_some(); });
  writable_.pause();
}

void InputStream::write(std::string bytes) {
  if (!fd_) return owner_.input_taken(*this, bytes.size(), true);
  pending_ += bytes;
  writable_.resume();
}

void InputStream::end() {
  ending_ = true;
  if (pending_.empty()) finish();
}

void InputStream::write_some() {
  const ssize_t n = ::write(fd_.get(), pending_.data(), pending_.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool closed = n < 0;
  const std::size_t taken = closed ? pending_.size() : static_cast<std::size_t>(n);
  pending_.erase(0, taken);
  if (pending_.empty()) writable_.pause();
  if (closed)
    close();
  else if (ending_ && pending_.empty())
    finish();
  owner_.input_taken(*this, taken, closed);
}

// What a terminal has instead of an end is a character that ends one read, or none if the reader
// has since taken the terminal out of the mode in which it counts; so it is typed again and again.
void InputStream::finish() {
  if (channel_ == Channel::kPipe) return close();
  if (!has_unread(fd_.get())) type_end_of_input(fd_.get());
  end_again_ = loop_.after(kEndAgain, [this] { finish(); });
}

void InputStream::close() {
  writable_.reset();
  end_again_.reset();
  fd_.reset();
}

}  // namespace rlx::launcher
