// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes from any rank: PMI-1 answers with whole lines to ranks that exist, or refuses.
// Sources: pmix_glue/pmi1.cc base/result.cc
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "pmix_glue/pmi1.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using rlx::pmix::Pmi1Job;
  Pmi1Job job({"kvs", 4, {0, 0, 1}, {0, 0, 1}});
  // The first byte of each piece says which rank sends it and how long it is.
  while (size > 1) {
    const std::uint32_t rank = data[0] % 4;
    const std::size_t n = std::min<std::size_t>(size - 1, 1 + data[0] / 4 * 8);
    Pmi1Job::Output out;
    const auto status = job.input(rank, {reinterpret_cast<const char*>(data + 1), n}, out);
    if (rank == 3 && status) std::abort();
    for (const auto& line : out.lines)
      if (line.rank > 2 || line.text.find('\n') != line.text.size() - 1) std::abort();
    data += n + 1;
    size -= n + 1;
  }
  return 0;
}
