// SPDX-License-Identifier: MIT OR Apache-2.0
// Any bytes as frames, to a node in the middle of a tree and to the root: refused, or carried out
// without harm. What decodes encodes to itself.
// Sources: pmix_glue/frame.cc pmix_glue/node_set.cc pmix_glue/meetings.cc pmix_glue/store.cc
// Sources: pmix_glue/tree_exchange.cc pmix_glue/tree_root.cc pmix_glue/carrier.cc
// Sources: base/result.cc base/log.cc base/knobs.cc
#include <cstdint>
#include <cstdlib>

#include "test/pmix_glue/sim_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rlx;
  test::SimTree tree({pmix::kRoot, 0, 0, pmix::kRoot}, 1);
  tree.add_job("j", 8);
  pmix::Exchange::BytesReply ignore = [](const Result<std::string>&) {};
  tree.nodes[0]->exchange->meet(pmix::Meeting::kFence, {{"j", pmix::kAllRanks}}, "part", ignore);
  while (size > 2) {
    const std::size_t n = std::min<std::size_t>(size - 2, data[1]);
    const std::string_view bytes(reinterpret_cast<const char*>(data + 2), n);
    if (const auto frame = pmix::decode(bytes))
      if (!pmix::decode(pmix::encode(*frame))) std::abort();
    const uint32_t from = data[0] % 4;
    if (data[0] & 4)
      (void)tree.root->deliver(from, bytes);
    else
      (void)tree.nodes[0]->exchange->deliver(from == 0 ? pmix::kRoot : from, bytes);
    tree.run(1000);
    data += n + 2;
    size -= n + 2;
  }
  return 0;
}
