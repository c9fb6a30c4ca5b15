// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/file.h"
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

std::string moves_json(const sched::Migration& migration) {
  std::string out =
      ",\n \"moves_are\": [\"layer\", \"expert\", \"from\", \"to\", \"from_slot\", \"to_slot\", "
      "\"round\", \"forwarded\"],\n \"moves\": [";
  bool first = true;
  for (const sched::Transfer& t : migration.transfers) {
    out += fmt::format("{}[{},{},{},{},{},{},{},{}]", first ? "\n  " : ",\n  ", t.layer, t.expert,
                       t.from, t.to, t.from_slot, t.to_slot, t.round, t.forwarded ? 1 : 0);
    first = false;
  }
  return out + "]";
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
    return fail(Code::kInvalid, fmt::format("{}: {} layers, want {}", path, rows->size(), layers));
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

std::string placement_json(const sched::Plan& plan, const sched::Cluster& cluster, int experts,
                           std::span<const uint8_t> dead, const sched::Migration* migration,
                           int64_t budget) {
  const Placement& placement = plan.placement;
  std::string gone;
  for (size_t r = 0; r < dead.size(); ++r)
    if (dead[r]) gone += fmt::format("{}{}", gone.empty() ? "" : ",", r);
  std::string out = fmt::format("{{\"ranks\": {}, \"nodes\": {}, \"experts\": {}, \"dead\": [{}],",
                                cluster.ranks(), cluster.nodes(), experts, gone);
  if (migration)
    out += fmt::format("\n \"fetches\": {}, \"lost\": {}, \"budget\": {},", plan.fetches(),
                       plan.lost(), budget < 0 ? "null" : std::to_string(budget));
  out += "\n \"physical_to_logical_map\": [";
  for (int l = 0; l < placement.layers; ++l) {
    out += l ? ",\n  [" : "\n  [";
    for (int s = 0; s < placement.slots; ++s)
      out += fmt::format("{}{}", s ? "," : "", placement.row(l)[s]);
    out += "]";
  }
  out += "]";
  return out + (migration ? moves_json(*migration) : "") + "}\n";
}

bool is_same_output(const std::string& a, const std::string& b) {
  std::error_code none;
  const auto full = [&](const std::string& path) {
    return std::filesystem::weakly_canonical(path, none);
  };
  if (std::filesystem::exists(a, none) && !std::filesystem::is_regular_file(a, none)) return false;
  return full(a) == full(b) || std::filesystem::equivalent(a, b, none);
}

Status write_file(const std::string& path, const std::string& text) {
  // A file that exists is replaced whole or not at all, behind links and with the rights it has; a
  // device or pipe is written to.
  std::error_code none;
  const auto kept = std::filesystem::status(path, none);
  const bool replace = !std::filesystem::exists(kept) || std::filesystem::is_regular_file(kept);
  std::string end = path;
  if (replace) {
    const auto behind = std::filesystem::weakly_canonical(path, none);
    if (!none) end = behind.string();
  }
  const std::string target = replace ? fmt::format("{}.{}.tmp", end, ::getpid()) : path;
  std::ofstream out(target, std::ios::binary);
  if (std::filesystem::is_regular_file(kept) && replace)
    std::filesystem::permissions(target, kept.permissions(), none);
  out << text;
  out.close();
  if (out && (!replace || std::rename(target.c_str(), end.c_str()) == 0)) return {};
  const auto failed = fail_errno("cannot write " + path);
  if (replace) std::filesystem::remove(target, none);
  return failed;
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80;
    if ((c < ' ' && c != '\n') || c == 0x7f || c1)
      out += fmt::format("\\x{:02x}", c);
    else
      out += text[i];
  }
  return out;
}

}  // namespace rlx::eplb
