// SPDX-License-Identifier: MIT OR Apache-2.0
// Placements as rlx-eplb and SGLang write them, read again.
#include <fmt/core.h>

#include "base/file.h"
#include "base/words.h"
#include "contrib/tools/eplb_files.h"
#include "contrib/tools/eplb_json.h"

namespace rlx::eplb {
namespace {

using nlohmann::json;
using sched::Placement;

bool is_slot_content(const json& id) {
  if (id.is_number_unsigned()) return id.get<uint64_t>() <= INT32_MAX;
  return id.is_number_integer() && id.get<int64_t>() == sched::kEmpty;
}

// Other ranks own other slots: what seems to stay would move. Other nodes: another machine's plan.
Status check_shape(const std::string& path, const json& document, const sched::Cluster& cluster,
                   int experts) {
  const std::pair<const char*, int> sizes[] = {
      {"ranks", cluster.ranks()}, {"nodes", cluster.nodes()}, {"experts", experts}};
  for (const auto& [name, want] : sizes)
    if (document.is_object() && document.contains(name) && document[name] != want)
      return fail(Code::kInvalid, fmt::format("{}: a placement for {} {}, want {}", path,
                                              shown(document[name]), name, want));
  return {};
}

}  // namespace

Result<Placement> parse_placement(const std::string& path, const std::string& text, int layers,
                                  int experts, const sched::Cluster& cluster) {
  const int slots = cluster.slots();
  RLX_TRY_ASSIGN(const json document, parse_json(path, text));
  RLX_TRY_ASSIGN(const json* rows, array_in(path, document, "physical_to_logical_map"));
  RLX_TRY(check_shape(path, document, cluster, experts));
  Placement placement{layers, slots, {}};
  if (static_cast<int>(rows->size()) != layers)
    return fail(Code::kInvalid,
                fmt::format("{}: {}, want {}", path, counted(rows->size(), "layer"), layers));
  for (size_t l = 0; l < rows->size(); ++l) {
    const json& row = (*rows)[l];
    if (!row.is_array() || static_cast<int>(row.size()) != slots)
      return fail(Code::kInvalid, fmt::format("{}: layer {}: {} slots, want {}", path, l,
                                              row.is_array() ? row.size() : 0, slots));
    for (size_t s = 0; s < row.size(); ++s) {
      if (!is_slot_content(row[s]) || row[s].get<int32_t>() >= experts)
        return fail(Code::kInvalid,
                    fmt::format("{}: layer {}, slot {}: {}: want an expert id from 0 to {}, or -1 "
                                "for an empty slot",
                                path, l, s, shown(row[s]), experts - 1));
      placement.expert.push_back(row[s].get<int32_t>());
    }
  }
  return placement;
}

Result<Placement> read_placement(const std::string& path, int layers, int experts,
                                 const sched::Cluster& cluster) {
  RLX_TRY_ASSIGN(const std::string text, read_file(path, kMostFile));
  return parse_placement(path, text, layers, experts, cluster);
}

}  // namespace rlx::eplb
