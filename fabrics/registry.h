// SPDX-License-Identifier: MIT OR Apache-2.0
// The table of wires, best first. To add a wire: write its Wire, add a line in registry.cc.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bootstrap.h"
#include "base/result.h"
#include "fabrics/wire.h"

namespace rlx {

struct WireEntry {
  std::string_view name;
  // kUnsupported with the reason where it cannot work.
  Result<std::unique_ptr<Wire>> (*make)(const BootstrapFacts& facts);
};

std::span<const WireEntry> wire_table();
// The wires named in `wanted` (commas, best first; empty: all of the table that work here), and
// self. A wire named there that does not exist or does not work is an error.
Result<std::vector<std::unique_ptr<Wire>>> make_wires(std::string_view wanted,
                                                      const BootstrapFacts& facts);

}  // namespace rlx
