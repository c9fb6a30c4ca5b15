// SPDX-License-Identifier: MIT OR Apache-2.0
// Output of ranks in files, one for each stream: DIR/rank.0007.out and rank.0007.err.
#pragma once

#include <map>
#include <string>

#include "base/fd.h"
#include "launcher/node.h"

namespace rlx::launcher {

class RankFiles {
 public:
  Status open(const JobSpec& job, std::uint32_t rank);
  // The first failure to write is an error, later ones are not repeated.
  Status write(RankId rank, Stream stream, const Text& text);

 private:
  struct File {
    Fd fd;
    bool timestamp = false;
    bool at_line_start = true;
    bool failed = false;
    std::string path;
  };
  std::map<std::pair<RankId, Stream>, File> files_;
};

}  // namespace rlx::launcher
