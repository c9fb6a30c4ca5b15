// SPDX-License-Identifier: MIT OR Apache-2.0
// What a rank's server says of the others: which died, and of what.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace rlx::pmix {

// What libpmix's thread tells us. It lives as long as the process, because an answer to a fence
// that was given up may come at any time, and event handlers carry no context.
struct Mail {
  std::mutex mutex;
  std::condition_variable news;
  std::string job;
  std::vector<std::pair<int, std::string>> failed;  // rank (-1: the server) and cause, in order
  std::function<void(int, std::string)> on_failure;
  std::atomic<bool> left{false};  // the job, in good order: the ends of others mean nothing now
};
Mail& mail();

// A rank is gone (-1: the server). Of each the first cause counts.
void report(int rank, const std::string& cause);

// False: this server tells nothing of ranks that die, and nobody ends the job then.
bool register_events();

// As a launcher would end the job whose rank has died. Once; on a thread of its own, as the
// program's may be anywhere.
void end_job_soon(const std::string& why);

}  // namespace rlx::pmix
