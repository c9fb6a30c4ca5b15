// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks that wait in Init (--stop-in-init) until debuggers have been attached to them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/head.h"

namespace rlx::launcher {
namespace {

constexpr double kGatherTime = 1;  // for others, of which some may never come

}  // namespace

void Head::held(RankId id) {
  Job& job = jobs_.at(id.job);
  if (let_go_ || job.ranks[id.rank].ended) return;
  job.ranks[id.rank].held = true;
  if (!hold_) hold_ = loop_.after(kGatherTime, [this] { tell_who_waits(); });
  const auto waits = [](const Rank& rank) { return rank.held || rank.ended; };
  if (std::all_of(job.ranks.begin(), job.ranks.end(), waits)) tell_who_waits();
}

void Head::tell_who_waits() {
  hold_.reset();
  std::size_t n = 0, n_held = 0;
  for (const auto& rank : jobs_.at(0).ranks) {
    n += !rank.ended;
    n_held += rank.held && !rank.ended;
  }
  if (ending_ || n_held == 0) return;
  error(
      fmt::format("{} of {} ranks wait in init for a debugger: rlxrun --status lists their pids, "
                  "kill -CONT {} lets them go on",
                  n_held, n, getpid()));
}

void Head::let_go() {
  if (!line_.stop_in_init || jobs_.empty() || std::exchange(let_go_, true)) return;
  hold_.reset();
  for (auto& rank : jobs_.at(0).ranks) rank.held = false;
  node_->release();
}

}  // namespace rlx::launcher
