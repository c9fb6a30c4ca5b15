// SPDX-License-Identifier: MIT OR Apache-2.0
// A directory of this launch alone, removed at its end. Its owner holds a lock on it, so a later
// launch can tell a living owner's directory from one that was left behind, across containers too.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rlx::launcher {

class Scratch {
 public:
  // In the first of `parents` where it works; `note` says why one that was asked for did not.
  static Result<std::unique_ptr<Scratch>> create(const std::vector<std::string>& parents,
                                                 std::string& note);
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch();
  const std::string& path() const { return path_; }

 private:
  Scratch(std::string path, Fd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  Fd lock_;
};

// Directories of this user's launches in `parent`.
std::vector<std::string> scratch_directories(const std::string& parent);
// Removes directories of this user in `parent` whose owner is gone.
void remove_stale_scratch(const std::string& parent);
// At the end of a launch: its own directory, and those of launchers among its ranks, which may have
// been killed together with their guards.
void remove_scratch(const std::string& path);

}  // namespace rlx::launcher
