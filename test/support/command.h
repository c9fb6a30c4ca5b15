// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs a program inside a test and tells how it ended and what it printed. The program and all it
// started (its process group) are gone when run() returns.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace rlx::test {

struct CommandOptions {
  std::vector<std::string> environment = {};  // "NAME=value" added to ours; "NAME" alone removes it
  std::string input = {};                     // standard input; empty: /dev/null
  std::string directory = {};                 // working directory; empty: ours
  int timeout_ms = 60000;                     // then the group is killed: code 124, timed_out
};

struct CommandResult {
  int code = -1;  // exit code, or 128 + signal
  bool timed_out = false;
  std::string out, err;
  // For a failing test's message.
  std::string text() const;
};

// argv[0] is looked up in PATH.
CommandResult run(const std::vector<std::string>& argv, const CommandOptions& options = {});

// Of a program's output: whether it has `part`, how often, and its lines in whatever order.
bool holds(const std::string& text, const std::string& part);
int count(const std::string& text, const std::string& part);
std::multiset<std::string> lines_of(const std::string& text);

// In a child before exec: the signals that nohup, a background shell or a test runner made it
// ignore act again.
void default_signals();

// A program of this build ("rlxrun", "test/coll/api_check").
std::string built(const std::string& program);
// A fresh directory, removed with all it holds when this goes.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace rlx::test
