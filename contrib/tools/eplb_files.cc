// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_files.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace rlx::eplb {
namespace {

using sched::Placement;

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

}  // namespace rlx::eplb
