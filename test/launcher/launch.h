// SPDX-License-Identifier: MIT OR Apache-2.0
// Running the real rlxrun in tests: to its end, or beside the test; and looking for what it left
// behind.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "test/support/command.h"

namespace rlx::test {

void pause_10ms();

// Fails the running test when they differ, showing both.
void expect_same(const std::string& seen, const std::string& wanted, const std::string& more = {},
                 const char* file = __builtin_FILE(), int line = __builtin_LINE());

// Polls until the condition holds; false when it does not within `ms`.
template <class Condition>
bool eventually(Condition condition, int ms) {
  for (int i = 0; i < ms / 10; ++i) {
    if (condition()) return true;
    pause_10ms();
  }
  return condition();
}

// Text that all processes of one test carry in their environment.
class Mark {
 public:
  Mark();
  ~Mark();  // kills what is left
  const std::string& entry() const { return entry_; }
  // Processes that carry it.
  std::vector<pid_t> processes() const;
  bool gone_within(int ms) const;

 private:
  std::string entry_;
};

// rlxrun -q with these arguments: `words` is cut at blanks, `script` is what `sh -c` runs.
CommandResult rlxrun(const std::vector<std::string>& arguments, const CommandOptions& options = {});
CommandResult rlxrun_sh(const std::string& words, const std::string& script,
                        const CommandOptions& options = {});
std::vector<std::string> cut(const std::string& words);
std::vector<std::string> with_sh(const std::string& words, const std::string& script);

// An rlxrun that runs beside the test. Its standard output is read by the test, its standard error
// kept.
class Background {
 public:
  Background(const std::vector<std::string>& arguments, const Mark& mark);
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background();
  pid_t pid() const { return pid_; }
  // The next line without its end; "" at the end of output or when none comes.
  std::string line();
  void close_output();
  void signal(int signal_number) const;
  bool has_ended();
  // 128 + signal when it was killed by one. -1 when it does not end within 30 s.
  int wait();
  std::string err() const;

 private:
  pid_t pid_ = -1;  // -1 once it has ended
  int code_ = -1;
  int out_ = -1, err_ = -1;
  std::string pending_;
};

// Directories of launches in `parent`.
std::vector<std::string> scratch_in(const std::string& parent);

}  // namespace rlx::test
