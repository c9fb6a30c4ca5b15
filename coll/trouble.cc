// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/trouble.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "coll/algorithm.h"
#include "coll/shape.h"

namespace rlx {
namespace {

bool has_root(Coll coll) {
  return coll == Coll::broadcast || coll == Coll::reduce || coll == Coll::gather ||
         coll == Coll::gatherv || coll == Coll::scatter || coll == Coll::scatterv;
}

bool reduces(Coll coll) {
  return coll == Coll::reduce || coll == Coll::all_reduce || coll == Coll::reduce_scatter;
}

std::string names_of(const std::vector<int>& ranks, const Group& group, Links& links) {
  constexpr std::size_t kMost = 8;
  std::string list;
  for (std::size_t i = 0; i < ranks.size() && i < kMost; ++i)
    list += fmt::format("{}rank {} ({})", i > 0 ? ", " : "", ranks[i],
                        links.host_of(group.world[ranks[i]]));
  if (ranks.size() > kMost) list += fmt::format(" and {} more", ranks.size() - kMost);
  return list;
}

// Ranks whose line of this call has not come.
std::vector<int> absent_by_line(const Task& task) {
  std::vector<int> absent;
  const Group& group = task.channel->group;
  for (int r = 0; r < group.size(); ++r)
    if (group.areas[r]->line[task.shared_number & 1].stamp.load(std::memory_order_acquire) !=
        task.shared_number)
      absent.push_back(r);
  return absent;
}

// Ranks that messages are awaited from or that have not taken ours, and did not say they wait too.
std::vector<int> absent_by_report(const Task& task) {
  std::vector<int> awaited, silent;
  const Group& group = task.channel->group;
  std::vector<bool> waits_for(group.world.size());
  for (const Task::InFlight& item : task.in_flight)
    waits_for[task.plan->steps[item.step].peer] = true;
  for (int r = 0; r < group.size(); ++r) {
    if (r == group.rank) continue;
    if (waits_for[r]) awaited.push_back(r);
    if (task.channel->reported[r].number < task.call.number) silent.push_back(r);
  }
  return silent.empty() ? awaited : silent;
}

}  // namespace

std::string to_string(const CallText& call) {
  constexpr const char* kPurposes[] = {"", "comm_dup", "comm_split", "finalize"};
  if (call.purpose != Purpose::own)
    return fmt::format("{}#{}", kPurposes[static_cast<int>(call.purpose)], call.number);
  const auto coll = static_cast<Coll>(call.coll);
  std::string text = fmt::format("{}#{}", name_of(coll), call.number);
  if (coll == Coll::barrier) return text;
  // The counts of the other v forms are many, and not known to all.
  text += coll == Coll::all_gatherv ? fmt::format("({} in all, ", call.count)
          : is_v(coll)              ? std::string("(")
                                    : fmt::format("(count {}, ", call.count);
  text += name_of(static_cast<Dtype>(call.dtype));
  if (reduces(coll))
    text += fmt::format(", {}, {}", name_of(static_cast<Op>(call.op)),
                        name_of(static_cast<Mode>(call.mode)));
  if (has_root(coll)) text += fmt::format(", root {}", call.root);
  return text + ")";
}

bool same_call(const CallText& a, const CallText& b) {
  return a.number == b.number && a.count == b.count && a.root == b.root && a.coll == b.coll &&
         a.dtype == b.dtype && a.op == b.op && a.mode == b.mode && a.algorithm == b.algorithm &&
         a.purpose == b.purpose;
}

void note_call(Channel& channel, const CallText& call) {
  if (channel.recent.empty()) channel.recent.resize(kRecentCalls);
  channel.recent[call.number % kRecentCalls] = call;
}

CallText recent_call(const Channel& channel, std::uint64_t number) {
  if (channel.recent.empty()) return {};
  const CallText& call = channel.recent[number % kRecentCalls];
  return call.number == number ? call : CallText{};
}

namespace {

// A report up to its verdict: the call, how many calls follow, these calls.
std::string report_bytes(const Channel& channel, const CallText& call) {
  static_assert((kRecentCalls + 1) * sizeof(CallText) < kLongestTold / 2 + 128);
  std::string bytes(reinterpret_cast<const char*>(&call), sizeof call);
  const std::uint64_t last = channel.calls;
  const std::uint64_t n = std::min<std::uint64_t>(last, channel.recent.size());
  bytes.append(reinterpret_cast<const char*>(&n), sizeof n);
  for (std::uint64_t number = last - n + 1; number <= last; ++number) {
    const CallText& recent = channel.recent[number % kRecentCalls];
    bytes.append(reinterpret_cast<const char*>(&recent), sizeof recent);
  }
  return bytes;
}

}  // namespace

std::optional<Report> read_report(std::string_view bytes) {
  Report report;
  std::uint64_t n = 0;
  const auto take = [&bytes](void* to, std::size_t n_bytes) {
    if (bytes.size() < n_bytes) return false;
    std::memcpy(to, bytes.data(), n_bytes);
    bytes.remove_prefix(n_bytes);
    return true;
  };
  if (!take(&report.call, sizeof report.call) || !take(&n, sizeof n) || n > kRecentCalls)
    return std::nullopt;
  report.recent.resize(n);
  for (CallText& call : report.recent)
    if (!take(&call, sizeof call)) return std::nullopt;
  report.verdict = bytes;
  return report;
}

void send_report(Channel& channel, Links& links, const CallText& call, std::string_view verdict) {
  const std::uint64_t tag = kReportTag | std::uint64_t{channel.group.context & 0xffff} << 32;
  std::string bytes = report_bytes(channel, call);
  bytes += verdict.substr(0, kLongestTold - bytes.size());
  for (int r = 0; r < channel.group.size(); ++r) {
    if (r == channel.group.rank || links.failed(channel.group.world[r]) != nullptr) continue;
    links.tell(channel.group.world[r], tag, bytes);
  }
}

std::string mismatch_text(const Channel& channel, int rank_a, const CallText& a, int rank_b,
                          const CallText& b) {
  const bool by_algorithm = [&] {
    CallText other = b;
    other.algorithm = a.algorithm;
    return same_call(a, other);
  }();
  const auto how = [&](const CallText& call) {
    const auto table = algorithms();
    if (!by_algorithm || call.algorithm >= table.size()) return std::string();
    return fmt::format(" by {}", table[call.algorithm]->name);
  };
  return fmt::format("{}: rank {} called {}{} while rank {} called {}{}{}", channel.group.name,
                     rank_a, to_string(a), how(a), rank_b, to_string(b), how(b),
                     by_algorithm ? " (is RLX_RULES the same on all ranks?)" : "");
}

std::string take_report(Channel& channel, int rank, const Report& report) {
  if (report.call.number > channel.reported[rank].number) channel.reported[rank] = report.call;
  for (const CallText& call : report.recent) {
    const CallText own = recent_call(channel, call.number);
    if (own.number != 0 && !same_call(own, call))
      return mismatch_text(channel, rank, call, channel.group.rank, own);
  }
  return {};
}

bool all_came(const Task& task) { return absent_by_line(task).empty(); }

std::string missing_text(const Task& task, Links& links) {
  const Group& group = task.channel->group;
  const std::vector<int> absent =
      task.shared_number != 0 ? absent_by_line(task) : absent_by_report(task);
  if (!absent.empty())
    return fmt::format("{} of {} ranks missing: {}", absent.size(), group.size(),
                       names_of(absent, group, links));
  return fmt::format("all {} ranks made the call, but it does not move on", group.size());
}

}  // namespace rlx
