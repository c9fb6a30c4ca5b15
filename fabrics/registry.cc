// SPDX-License-Identifier: MIT OR Apache-2.0
#include "fabrics/registry.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>

#include "base/knobs.h"
#include "base/log.h"
#include "base/words.h"
#include "fabrics/self.h"
#include "fabrics/shm.h"
#include "fabrics/tcp.h"

namespace rlx {
namespace {

template <class W>
Result<std::unique_ptr<Wire>> make(const BootstrapFacts& facts) {
  RLX_TRY_ASSIGN(auto wire, W::create(facts));
  return std::unique_ptr<Wire>(std::move(wire));
}

constexpr WireEntry kTable[] = {
    {"self", make<SelfWire>},
    {"shm", make<ShmWire>},
    {"tcp", make<TcpWire>},
};

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const WireEntry& entry : kTable) names.emplace_back(entry.name);
  return names;
}

}  // namespace

std::span<const WireEntry> wire_table() { return kTable; }

Result<std::vector<std::unique_ptr<Wire>>> make_wires(std::string_view wanted,
                                                      const BootstrapFacts& facts) {
  std::vector<std::string> names = words_of(wanted, ",");
  const bool all = names.empty();
  if (all) names = known_names();
  // Who names a fabric thinks of other ranks, and yet sends to itself too.
  if (std::find(names.begin(), names.end(), "self") == names.end())
    names.insert(names.begin(), "self");
  std::vector<std::unique_ptr<Wire>> wires;
  for (const std::string& name : names) {
    const auto* const entry = std::find_if(std::begin(kTable), std::end(kTable),
                                           [&](const WireEntry& e) { return e.name == name; });
    if (entry == std::end(kTable))
      return fail(Code::kInvalid, fmt::format("RLX_FABRICS: there is no fabric '{}', but {}", name,
                                              fmt::join(known_names(), ", ")));
    auto wire = entry->make(facts);
    if (!wire && all && wire.error().code == Code::kInvalid) return tl::unexpected(wire.error());
    if (!wire && !all)
      return fail(wire.error().code, fmt::format("RLX_FABRICS: {}: {}", name, wire.error().text));
    if (!wire) {
      log::info("fabric {} is not used: {}", name, wire.error().text);
      continue;
    }
    wires.push_back(std::move(*wire));
  }
  return wires;
}

}  // namespace rlx
