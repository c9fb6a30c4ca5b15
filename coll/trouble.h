// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens when a collective does not end: who is missing, whose call differs, who is dead,
// and how ranks tell each other.
//
// A rank that has waited kReportAfterNs in a call reports the call to all ranks of its
// communicator. Reports are read by whoever waits for anything in a process and finds nothing to
// do. So a mismatch is found also where no message of the two calls ever meets, and a deadline can
// name who never came.
// A rank that knows of a mismatch, by a message, a report or a verdict, sends all the others its
// verdict once: a report with the words of the error. So all fail, those too that had finished the
// call. It keeps its own error back until it has the verdicts of all, for a process that ends takes
// what it sent last with it; but no longer than kSettleNs, as a rank may be long in coming.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coll/engine.h"
#include "coll/task.h"

namespace rlx {

inline constexpr std::int64_t kLookAfterNs = 10'000'000;
inline constexpr std::int64_t kReportAfterNs = 100'000'000;
inline constexpr std::int64_t kSettleNs = 500'000'000;
inline constexpr std::size_t kRecentCalls = 64;  // fit in a report

std::string to_string(const CallText& call);
bool same_call(const CallText& a, const CallText& b);  // number included

void note_call(Channel& channel, const CallText& call);
// The channel's own call of that number; number 0 if it is not known (any more).
CallText recent_call(const Channel& channel, std::uint64_t number);

// `verdict`: the words of a mismatch; empty: this rank waits in the call.
void send_report(Channel& channel, Links& links, const CallText& call,
                 std::string_view verdict = {});
struct Report {
  CallText call;
  std::vector<CallText> recent;  // the last calls before it and after it, ascending
  std::string verdict;
};
// Of a message; nothing if it is none.
std::optional<Report> read_report(std::string_view bytes);
// Stores a report that arrived. Empty, or what contradicts it: this call or one of the last.
std::string take_report(Channel& channel, int rank, const Report& report);
std::string mismatch_text(const Channel& channel, int rank_a, const CallText& a, int rank_b,
                          const CallText& b);
// A plan in shared memory: the lines of all ranks are there.
bool all_came(const Task& task);
// For a deadline: who has not come, or which phase is waited for.
std::string missing_text(const Task& task, Links& links);

}  // namespace rlx
