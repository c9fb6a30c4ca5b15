// SPDX-License-Identifier: MIT OR Apache-2.0
// Any text as loads or as a placement for rlx-eplb: refused, or within bounds.
// Sources: contrib/tools/eplb_loads.cc contrib/tools/eplb_placement.cc contrib/tools/eplb_json.cc
// Sources: sched/types.cc base/file.cc base/result.cc
#include <cstdint>
#include <cstdlib>
#include <string>

#include "contrib/tools/eplb_files.h"

using namespace rlx;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(bytes + 1), size - 1);
  if (bytes[0] % 2 == 0) {
    std::string note;
    const auto loads = eplb::parse_loads("f", text, note);
    if (loads && !sched::check_loads(*loads)) std::abort();
  } else {
    constexpr int kLayers = 2, kExperts = 3;
    static const auto cluster = sched::make_cluster(2, 4).value();
    const auto placement = eplb::parse_placement("f", text, kLayers, kExperts, cluster);
    if (!placement) return 0;
    const sched::Loads loads{1, kLayers, kExperts, {1, 2, 3, 4, 5, 6}};
    if (!sched::check_placement(*placement, loads, cluster, false)) std::abort();
  }
  return 0;
}
