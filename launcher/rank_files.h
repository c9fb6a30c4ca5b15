// SPDX-License-Identifier: MIT OR Apache-2.0
// Output of ranks in files of their node, named by a pattern: %r is the rank with leading zeros
// (before it the number of its job and a dot, if it was spawned), %h the host, %n the launch, %s
// "out" or "err", %% a '%'. DIR/rank.%r.%s is DIR/rank.0007.out and DIR/rank.0007.err. Streams
// whose names are the same share a file, by whole lines.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/fd.h"
#include "launcher/node.h"

namespace rlx::launcher {

std::string file_name(const JobSpec& job, std::uint32_t rank, Stream stream);

class RankFiles {
 public:
  Status open(const JobSpec& job, std::uint32_t rank);
  // The first failure to write is an error, later ones are not repeated.
  Status write(RankId rank, Stream stream, const Text& text);

 private:
  using Key = std::pair<RankId, Stream>;
  struct File {
    Fd fd;
    bool timestamp = false;
    bool at_line_start = true;
    bool failed = false;
    Key last;  // who wrote
    std::string path;
  };
  std::map<std::string, std::shared_ptr<File>> by_path_;
  std::map<Key, std::shared_ptr<File>> files_;
};

}  // namespace rlx::launcher
