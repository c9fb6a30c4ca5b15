// SPDX-License-Identifier: MIT OR Apache-2.0
// What the job ends with: the exit code, and one line that names the rank, pid, host and cause. The
// first failure decides; what follows from it (ranks we end ourselves) does not count.
#pragma once

#include <string>
#include <vector>

#include "launcher/node.h"

namespace rlx::launcher {

inline constexpr int kExitUsage = 2;
inline constexpr int kExitTimeout = 124;
inline constexpr int kExitSignalBase = 128;

struct RankName {
  RankId id;
  pid_t pid = -1;
  std::string host;
};
std::string text_of(const RankName& rank);

class Outcome {
 public:
  // Each returns the line to print, or "" when this was no failure or not the first; timed_out() is
  // told in any case.
  std::string rank_exited(const RankName& rank, int wait_status, const pmix::RankState& state);
  std::string rank_stayed_out(const RankName& rank);
  std::string rank_aborted(const RankName& rank, int status, const std::string& message);
  std::string timed_out(double seconds, int exit_code);
  std::string interrupted(int signal_number);
  std::string output_closed();
  std::string host_lost(const std::string& problem);
  std::string other(const std::string& problem, int exit_code = 1);

  // Those of all hosts are told together: each problem once, with its hosts. True for the first, if
  // it is the first failure.
  bool not_started(const std::string& host, const StartProblem& problem);
  std::vector<std::string> take_start_problems();

  // Whether starting the job again may help: a rank failed or a host was lost, and nobody asked for
  // the end.
  bool may_restart() const { return may_restart_; }
  // Not 0 either, where all went well, if some output was lost.
  void output_lost() { output_lost_ = true; }
  int exit_code() const { return exit_code_ == 0 && output_lost_ ? 1 : exit_code_; }
  // The signal that ended rlxrun, to end by it as well; 0: none.
  int signal_number() const { return signal_number_; }

 private:
  std::string fail_with(int exit_code, std::string line);
  std::string may_pass(std::string line);
  struct StartProblems {
    std::string text;
    std::vector<std::string> hosts;
  };
  std::vector<StartProblems> start_problems_;
  bool failed_ = false, may_restart_ = false, output_lost_ = false;
  int exit_code_ = 0;
  int signal_number_ = 0;
};

}  // namespace rlx::launcher
