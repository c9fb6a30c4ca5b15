// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/link.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "config.h"

namespace rlx::launcher {
namespace {

constexpr int kDeadPeriods = 6;
constexpr std::size_t kMostNoise = 1 << 20;
constexpr std::string_view kGreeting = "rlxrun-daemon ";

void set_nonblocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

std::string greeting_line() {
  return fmt::format("\n{}{} {}\n", kGreeting, kProtocol, PACKAGE_VERSION);
}

std::optional<std::string> strange_version(std::string_view line) {
  if (!line.starts_with(kGreeting)) return std::nullopt;
  line.remove_prefix(kGreeting.size());
  if (line == fmt::format("{} {}", kProtocol, PACKAGE_VERSION)) return "";
  const auto blank = std::min(line.find(' '), line.size());
  return fmt::format("{} (protocol {})", line.substr(std::min(blank + 1, line.size())),
                     line.substr(0, blank));
}

Link::Link(Loop& loop, Fd in, Fd out, LinkCalls calls)
    : loop_(loop), in_(std::move(in)), out_(std::move(out)), calls_(std::move(calls)) {
  set_nonblocking(in_.get());
  set_nonblocking(out_.get());
  readable_ = loop_.on_readable(in_.get(), [this] { read_some(); });
  writable_ = loop_.on_writable(out_.get(), [this] { write_some(); });
  writable_.pause();
}

void Link::start_heartbeat(double period_s) {
  if (period_s <= 0) return;
  period_s_ = period_s;
  heartbeat_ = loop_.after(period_s_, [this] { beat(); });
}

// Counts periods, not time: a process that was stopped, or a machine that slept, finds no other
// dead.
void Link::beat() {
  if (!forgiving_ && ++silent_periods_ > kDeadPeriods)
    return go_down({false, fmt::format("silent for {:g} s", kDeadPeriods * period_s_)});
  if (!forgiving_ && silent_periods_ == kDeadPeriods / 2 + 1 && calls_.silent)
    calls_.silent(kDeadPeriods / 2 * period_s_, kDeadPeriods * period_s_);
  if (!std::exchange(sent_, false)) {
    send(Frame{Kind::kPing, kHeadNode, kHeadNode, {}});
    sent_ = false;
  }
  heartbeat_ = loop_.after(period_s_, [this] { beat(); });
}

void Link::demand_answer(int n_periods) {
  send(Frame{Kind::kPing, kHeadNode, kHeadNode, "?"});
  await_answer(n_periods);
}

// What lay in a pipe already is no answer, but while more comes it may be behind that.
void Link::await_answer(int n_periods) {
  answer_ = loop_.after(kAnswerPeriod, [this, n_periods] {
    if (++periods_without_answer_ >= n_periods) return go_down({true, "no answer"});
    await_answer(n_periods);
  });
}

void Link::hear_ping(const Frame& ping) {
  if (ping.body.empty())
    answer_.reset();
  else
    send(Frame{Kind::kPing, kHeadNode, kHeadNode, {}});
}

void Link::send(FrameBytes bytes) {
  if (!out_ || going_down_) return;
  sent_ = true;
  queue_.push_back(std::move(bytes));
  if (queue_.size() == 1) write_some();
}

void Link::write_some() {
  while (!queue_.empty()) {
    const std::string& bytes = *queue_.front();
    const ssize_t n = write(out_.get(), bytes.data() + n_written_, bytes.size() - n_written_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return writable_.resume();
    if (n < 0) {  // what the other side has still said is worth reading: its end is seen there
      queue_.clear();
      out_.reset();
      return writable_.reset();
    }
    n_written_ += static_cast<std::size_t>(n);
    if (n_written_ < bytes.size()) continue;
    queue_.pop_front();
    n_written_ = 0;
  }
  writable_.pause();
}

void Link::read_some() {
  static std::array<char, 256 << 10> buffer;  // one loop, one reader at a time
  const ssize_t n = read(in_.get(), buffer.data(), buffer.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return go_down({true, n == 0 ? "the connection was closed" : strerror(errno)});
  silent_periods_ = periods_without_answer_ = 0;
  forgiving_ = false;
  std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
  if (awaits_greeting_ && !skip_to_greeting(bytes)) return;
  reader_.take(bytes);
  while (in_ && !going_down_) {
    auto frame = reader_.next();
    if (!frame) return go_down({false, "its daemon sent " + frame.error().text});
    if (!*frame) return;
    if ((*frame)->kind == Kind::kPing)
      hear_ping(**frame);
    else
      calls_.frame(std::move(**frame));
  }
}

// Leaves in `bytes` what follows the greeting; false when it has not come yet.
bool Link::skip_to_greeting(std::string_view& bytes) {
  n_noise_ += bytes.size();
  while (!bytes.empty()) {
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (c != '\n') {
      noise_ += c;
      continue;
    }
    const auto strange = strange_version(noise_);
    const bool passed_a_terminal = noise_.ends_with('\r');
    noise_.clear();
    if (!strange) continue;
    if (passed_a_terminal) {
      go_down({false,
               "its agent changes what passes through it, as a terminal does (ssh -tt): "
               "have it pass bytes as they are"});
      return false;
    }
    if (!strange->empty()) {
      go_down({false, fmt::format("its rlxrun is {}, this is {} (protocol {}): install the same "
                                  "version there, or name another with --prefix",
                                  *strange, PACKAGE_VERSION, kProtocol)});
      return false;
    }
    awaits_greeting_ = false;
    calls_.greeted();
    return in_ && !going_down_;
  }
  if (n_noise_ > kMostNoise) go_down({false, "what answers there is no daemon of rlxrun"});
  return false;
}

void Link::go_down(LinkEnd end) {
  if (going_down_) return;
  readable_.reset();
  writable_.reset();
  heartbeat_.reset();
  answer_.reset();
  going_down_ = loop_.after(0, [this, end = std::move(end)] {
    const auto call = calls_.down;  // may destroy us, and this with us
    const LinkEnd why = end;
    in_.reset();
    out_.reset();
    call(why);
  });
}

void Link::close() {
  readable_.reset();
  writable_.reset();
  heartbeat_.reset();
  answer_.reset();
  going_down_.reset();
  in_.reset();
  out_.reset();
}

}  // namespace rlx::launcher
