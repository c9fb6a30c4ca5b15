// SPDX-License-Identifier: MIT OR Apache-2.0
// rlxrun's standard output and error: terminals that keep lines whole, each with a writer behind
// it. Both are one when they lead to the same place, so that their order is kept.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "launcher/loop.h"
#include "launcher/node.h"
#include "launcher/terminal.h"
#include "launcher/writer.h"

namespace rlx::launcher {

class OutputOwner {
 public:
  virtual ~OutputOwner() = default;
  virtual std::string prefix_of(RankId rank, Stream stream) const = 0;
  virtual std::string record_of(RankId rank, Stream stream, const Text& text) const = 0;
  // So much of a rank's stream has been written or dropped.
  virtual void written(RankId rank, Stream stream, std::size_t n_bytes) = 0;
  virtual void output_failed(Stream stream, int error) = 0;
  virtual void output_idle() = 0;
};

class Output {
 public:
  Output(Loop& loop, OutputOwner& owner);
  // What ranks write goes to standard output, as records.
  void show_records();
  // Standard output of this rank is that of its pseudo-terminal.
  void pass_through(RankId rank);
  void write(RankId rank, Stream stream, Text text);
  void ended(RankId rank, Stream stream);
  // A line of rlxrun itself, on standard error.
  void say(const std::string& line);
  bool is_idle() const;
  bool is_terminal() const { return is_terminal_; }

 private:
  struct Side {
    std::unique_ptr<Writer> writer;
    std::unique_ptr<Terminal> terminal;
    Watch silence;
    std::uint64_t writes_seen = 0;
  };
  std::unique_ptr<Side> open(Stream stream);
  Side& side(Stream stream) { return stream == Stream::kStderr && err_ ? *err_ : *out_; }
  Side& side_of_ranks(Stream stream) { return records_ ? *out_ : side(stream); }
  void watch_silence(Side& side);

  Loop& loop_;
  OutputOwner& owner_;
  std::unique_ptr<Side> out_, err_;  // err_ is null when both are one
  bool is_terminal_, records_ = false;
};

}  // namespace rlx::launcher
