// SPDX-License-Identifier: MIT OR Apache-2.0
// Reads standard input for the ranks that want it, never more than they can take and never from a
// terminal that belongs to another job.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/loop.h"
#include "launcher/node.h"

namespace rlx::launcher {

// Whether standard input is no terminal, or one that we have in the foreground.
bool terminal_is_ours();

class StdinSource {
 public:
  using Give = std::function<void(RankId rank, std::string bytes)>;
  using End = std::function<void(RankId rank)>;

  StdinSource(Loop& loop, std::vector<RankId> readers, Give give, End end);
  void taken(RankId rank, std::size_t n_bytes, bool closed);
  // The terminal may have become ours or somebody else's.
  void continued();

 private:
  void read_some();
  bool may_read() const;
  void update();
  void finish();

  Loop& loop_;
  std::map<RankId, std::size_t> under_way_;  // for each reader that still wants input
  Give give_;
  End end_;
  bool done_ = false;
  Watch readable_;
};

}  // namespace rlx::launcher
