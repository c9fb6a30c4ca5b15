// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/stdin_source.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace rlx::launcher {
namespace {

constexpr std::size_t kMostUnderWay = 64 << 10;  // for each reader

}  // namespace

bool terminal_is_ours() {
  return isatty(STDIN_FILENO) == 0 || tcgetpgrp(STDIN_FILENO) == getpgrp();
}

StdinSource::StdinSource(Loop& loop, std::vector<RankId> readers, Give give, End end)
    : loop_(loop), give_(std::move(give)), end_(std::move(end)) {
  for (const RankId reader : readers) under_way_[reader] = 0;
  update();
}

bool StdinSource::may_read() const {
  return !done_ && !under_way_.empty() && terminal_is_ours() &&
         std::all_of(under_way_.begin(), under_way_.end(),
                     [](const auto& reader) { return reader.second < kMostUnderWay; });
}

void StdinSource::update() {
  if (!may_read()) return readable_.reset();
  if (readable_) return;
  readable_ = loop_.on_readable(STDIN_FILENO, [this] { read_some(); });
}

void StdinSource::continued() { update(); }

void StdinSource::read_some() {
  readable_.reset();
  if (!may_read()) return;  // Ctrl-Z and bg since this was asked for
  static std::array<char, 32 << 10> buffer;
  const ssize_t n = read(STDIN_FILENO, buffer.data(), buffer.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return update();
  if (n <= 0) return finish();
  std::vector<RankId> readers;
  for (auto& [rank, under_way] : under_way_) {
    under_way += static_cast<std::size_t>(n);
    readers.push_back(rank);
  }
  for (const RankId rank : readers) give_(rank, {buffer.data(), static_cast<std::size_t>(n)});
  update();
}

void StdinSource::finish() {
  done_ = true;
  for (const auto& [rank, under_way] : under_way_) end_(rank);
}

void StdinSource::taken(RankId rank, std::size_t n_bytes, bool closed) {
  const auto reader = under_way_.find(rank);
  if (reader == under_way_.end()) return;
  reader->second -= std::min(n_bytes, reader->second);
  if (closed) under_way_.erase(reader);
  update();
}

}  // namespace rlx::launcher
