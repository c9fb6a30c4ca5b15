// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosts, each once, whatever name of it was used.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/allocation.h"

namespace rlx::launcher {

class HostTable {
 public:
  explicit HostTable(std::string hostname) : hostname_(std::move(hostname)) {}

  // Adds a host, or the slots of this mention to those it has ("a,a" is two, "a" alone asks the
  // host). Returns its index.
  std::uint32_t add(HostEntry entry);
  // By its name, with or without a domain; this machine by any of its names and addresses.
  std::optional<std::uint32_t> find(const std::string& name) const;
  const std::vector<HostEntry>& hosts() const { return hosts_; }

 private:
  std::string hostname_;
  std::vector<HostEntry> hosts_;
  std::map<std::string, std::vector<std::uint32_t>> by_label_;  // the name before its domain
  std::optional<std::uint32_t> here_;
};

}  // namespace rlx::launcher
