// SPDX-License-Identifier: MIT OR Apache-2.0
// rlxrun --status: what this user's launchers on this host run, asked from each over a socket in
// its own directory, so that what is shown is what is.
#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "launcher/loop.h"

namespace rlx::launcher {

struct RankStatus {
  std::uint32_t job = 0;  // 0: the one on the command line
  std::uint32_t rank = 0;
  std::string host;
  int pid = -1;       // -1: not started yet
  std::string state;  // "starting", "running", "ended"
};

struct LauncherStatus {
  std::string id;  // RLX_JOBID
  int pid = -1;
  std::time_t started = 0;
  std::string command;
  std::vector<RankStatus> ranks;
};
std::string encode(const LauncherStatus& status);
Result<LauncherStatus> decode_status(const std::string& text);

// Answers those who connect to DIRECTORY/status.
class StatusService {
 public:
  using Ask = std::function<LauncherStatus()>;
  // Without a socket, for want of descriptors say, nobody is answered and nothing else changes.
  StatusService(Loop& loop, const std::string& directory, Ask ask);
  StatusService(const StatusService&) = delete;
  StatusService& operator=(const StatusService&) = delete;

 private:
  struct Reader {
    Fd fd;
    std::string left;
    Watch watch;
  };
  void accept_readers();
  void write_some(std::list<Reader>::iterator reader);

  Loop& loop_;
  Ask ask_;
  Fd listener_;
  Watch watch_;
  std::list<Reader> readers_;
};

// All launchers with a directory of this user in one of `parents`; those that do not answer within
// two seconds (stopped ones, say) are named in `silent` by their directory.
std::vector<LauncherStatus> running_launchers(const std::vector<std::string>& parents,
                                              std::vector<std::string>& silent);
// A table: one line a job and one a rank.
std::string table_of(const std::vector<LauncherStatus>& launchers);
// The same as one JSON array.
std::string json_of(const std::vector<LauncherStatus>& launchers);

}  // namespace rlx::launcher
