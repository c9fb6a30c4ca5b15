// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/output.h"

#include <sys/stat.h>
#include <unistd.h>

namespace rlx::launcher {
namespace {

constexpr double kSilence =
    0.2;  // seconds after which a rank in the middle of a line loses the output

// Terminal::Key of a stream; 0 is rlxrun itself.
Terminal::Key key_of(RankId rank, Stream stream) {
  return 1 + (static_cast<Terminal::Key>(rank.job) << 33 |
              static_cast<Terminal::Key>(rank.rank) << 1 | (stream == Stream::kStderr ? 1 : 0));
}
RankId rank_of(Terminal::Key key) {
  return {static_cast<std::uint32_t>((key - 1) >> 33), static_cast<std::uint32_t>((key - 1) >> 1)};
}
Stream stream_of(Terminal::Key key) { return (key - 1) & 1 ? Stream::kStderr : Stream::kStdout; }

bool same_file(int a, int b) {
  struct stat x {
  }, y{};
  return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

}  // namespace

Output::Output(Loop& loop, OutputOwner& owner)
    : loop_(loop), owner_(owner), is_terminal_(isatty(STDOUT_FILENO) != 0) {
  out_ = open(Stream::kStdout);
  if (!same_file(STDOUT_FILENO, STDERR_FILENO)) err_ = open(Stream::kStderr);
}

std::unique_ptr<Output::Side> Output::open(Stream stream) {
  auto side = std::make_unique<Side>();
  Side* raw = side.get();
  side->writer = std::make_unique<Writer>(
      loop_, stream == Stream::kStdout ? STDOUT_FILENO : STDERR_FILENO,
      [this](const std::vector<Writer::Settled>& settled) {
        for (const auto& piece : settled)
          if (piece.key != 0) owner_.written(rank_of(piece.key), stream_of(piece.key), piece.taken);
        if (is_idle()) owner_.output_idle();
      },
      [this, stream](int error) { owner_.output_failed(stream, error); });
  side->terminal = std::make_unique<Terminal>(
      [raw](std::string bytes, Terminal::Key key, std::size_t taken) {
        raw->writer->push(std::move(bytes), key, taken);
      },
      [this](Terminal::Key key) {
        return key == 0 ? std::string() : owner_.prefix_of(rank_of(key), stream_of(key));
      });
  return side;
}

// Our terminals may then be in raw mode, now and then; a return too many does no harm.
void Output::pass_through(RankId rank) {
  const Terminal::Key key = key_of(rank, Stream::kStdout);
  out_->terminal->pass_through(key, is_terminal_);
  if (err_) err_->terminal->pass_through(key, isatty(STDERR_FILENO) != 0);
}

void Output::show_records() {
  records_ = true;
  out_->terminal->show_records([this](Terminal::Key key, const Text& text) {
    return owner_.record_of(rank_of(key), stream_of(key), text);
  });
}

void Output::write(RankId rank, Stream stream, Text text) {
  Side& to = side_of_ranks(stream);
  to.terminal->write(key_of(rank, stream), std::move(text));
  if (to.terminal->has_held() && !to.silence) watch_silence(to);
}

void Output::ended(RankId rank, Stream stream) {
  side_of_ranks(stream).terminal->close(key_of(rank, stream));
}

void Output::say(const std::string& line) {
  side(Stream::kStderr).terminal->write(0, {"rlxrun: " + line + "\n", true});
}

void Output::watch_silence(Side& side) {
  side.writes_seen = side.terminal->owner_writes();
  side.silence = loop_.after(kSilence, [this, &side] {
    if (side.terminal->owner_writes() == side.writes_seen) side.terminal->owner_is_silent();
    side.silence.reset();
    if (side.terminal->has_held()) watch_silence(side);
  });
}

bool Output::is_idle() const {
  const auto idle = [](const Side& side) {
    return side.writer->is_idle() && !side.terminal->has_held();
  };
  return idle(*out_) && (!err_ || idle(*err_));
}

}  // namespace rlx::launcher
