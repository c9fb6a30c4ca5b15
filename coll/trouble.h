// SPDX-License-Identifier: MIT OR Apache-2.0
// What happens when a collective does not end: who is missing, whose call differs, who is dead,
// and how ranks tell each other.
//
// A rank that has waited kReportAfterNs in a call reports the call to all ranks of its
// communicator; so does one that found a mismatch. Reports are read by whoever waits for anything
// in a process and finds nothing to do. A rank that gets a report that contradicts its own call of
// that number fails, and reports its own call in return: so all ranks learn of a mismatch, also
// where no message of the two calls ever meets, and a deadline can name who never came.
#pragma once

#include <cstdint>
#include <string>

#include "coll/engine.h"
#include "coll/task.h"

namespace rlx {

inline constexpr std::int64_t kLookAfterNs = 10'000'000;
inline constexpr std::int64_t kReportAfterNs = 100'000'000;
inline constexpr std::size_t kRecentCalls = 64;

std::string to_string(const CallText& call);
bool same_call(const CallText& a, const CallText& b);  // number included

void note_call(Channel& channel, const CallText& call);
// The channel's own call of that number; number 0 if it is not known (any more).
CallText recent_call(const Channel& channel, std::uint64_t number);

void send_report(Channel& channel, Links& links, const CallText& call);
// Stores a report that arrived. Empty, or what contradicts it.
std::string take_report(Channel& channel, int rank, const CallText& call);
std::string mismatch_text(const Channel& channel, int rank_a, const CallText& a, int rank_b,
                          const CallText& b);
// A plan in shared memory: the lines of all ranks are there.
bool all_came(const Task& task);
// For a deadline: who has not come, or which phase is waited for.
std::string missing_text(const Task& task, Links& links);

}  // namespace rlx
