// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/host_table.h"

#include <algorithm>

#include "launcher/hosts.h"

namespace rlx::launcher {
namespace {

// What equal names have in common: all of an address, else what stands before the domain.
std::string label_of(const std::string& name) {
  const bool address = name.find_first_not_of("0123456789.") == std::string::npos ||
                       name.find(':') != std::string::npos;
  return address ? name : name.substr(0, name.find('.'));
}

}  // namespace

std::uint32_t HostTable::add(HostEntry entry) {
  if (const auto found = find(entry.name)) {
    HostEntry& known = hosts_[*found];
    known.slots = std::min(std::max(known.slots, 1) + std::max(entry.slots, 1), kMaxSlots);
    known.max_slots = std::max(known.max_slots, entry.max_slots);
    return *found;
  }
  const auto index = static_cast<std::uint32_t>(hosts_.size());
  entry.here = entry.here || is_this_host(entry.name, hostname_);
  if (entry.here && !here_) here_ = index;
  by_label_[label_of(entry.name)].push_back(index);
  hosts_.push_back(std::move(entry));
  return index;
}

std::optional<std::uint32_t> HostTable::find(const std::string& name) const {
  const auto bucket = by_label_.find(label_of(name));
  if (bucket != by_label_.end())
    for (const auto index : bucket->second)
      if (is_same_name(name, hosts_[index].name)) return index;
  return here_ && is_this_host(name, hostname_) ? here_ : std::nullopt;
}

}  // namespace rlx::launcher
