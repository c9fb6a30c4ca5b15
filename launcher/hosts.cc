// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/network.h"
#include "launcher/host_ranges.h"
#include "launcher/option_values.h"

namespace rlx::launcher {
namespace {

// What may stand in a name that goes to ssh or a shell: never an option, never a metacharacter.
bool is_plain(std::string_view name) {
  constexpr std::string_view kMore = "._-:%[],";
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           static_cast<unsigned char>(c) >= 0x80 || kMore.find(c) != std::string_view::npos;
  });
}

// The colon before the slots, outside of brackets; the end if there is none.
std::size_t find_slots(std::string_view word) {
  const auto colon = word.rfind(':');
  const auto bracket = word.rfind(']');
  const bool inside = bracket != std::string_view::npos && colon < bracket;
  return colon == std::string_view::npos || inside ? word.size() : colon;
}

// "[fe80::1]:4" or "fe80::1"; a bracket around digits, '-' and ',' is a range instead.
bool is_ipv6(std::string_view word) {
  const auto inside = word.substr(0, word.find(']'));
  return word.starts_with('[') ? inside.find(':') != std::string_view::npos
                               : std::count(inside.begin(), inside.end(), ':') > 1;
}

Status read_host(std::string_view word, std::vector<HostEntry>& hosts) {
  HostEntry host;
  const std::string typed(word);
  host.source = "--host";
  if (const auto at = word.find('@'); at != std::string_view::npos) {
    host.user = word.substr(0, at);
    word.remove_prefix(at + 1);
    if (!is_plain(host.user))
      return fail(Code::kInvalid, fmt::format("host '{}': this is no user's name", typed));
  }
  std::vector<std::string> names;
  std::size_t end = find_slots(word);
  if (is_ipv6(word)) {
    const bool bare = !word.starts_with('[');
    if (bare) end = word.size();
    if (!bare && word.find(']') + 1 != end)
      return fail(Code::kInvalid,
                  fmt::format("host '{}': want [ADDRESS] or [ADDRESS]:SLOTS", typed));
    names.emplace_back(bare ? word : word.substr(1, end - 2));
  } else {
    RLX_TRY_ASSIGN(names, expand_host_word(word.substr(0, end)));
  }
  if (!is_plain(names.front()))
    return fail(Code::kInvalid, fmt::format("host '{}': this is no host's name", typed));
  if (end < word.size()) {
    const auto count = read_count(word.substr(end + 1), 1);
    if (!count || *count > kMaxSlots)
      return fail(Code::kInvalid, fmt::format("host '{}': want NAME or NAME:SLOTS", typed));
    host.slots = *count;
  }
  if (hosts.size() + names.size() > kMaxHosts)
    return fail(Code::kInvalid, fmt::format("more than {} hosts", kMaxHosts));
  for (auto& name : names) {
    hosts.push_back(host);
    hosts.back().name = std::move(name);
  }
  return {};
}

}  // namespace

Result<std::vector<HostEntry>> read_host_list(std::string_view list) {
  std::vector<HostEntry> hosts;
  for (const auto word : split_host_words(list)) RLX_TRY(read_host(word, hosts));
  return hosts;
}

std::string own_hostname() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name[0] ? name : "localhost";
}

bool is_same_name(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (b.size() == a.size() || b[a.size()] == '.');
}

bool is_this_host(std::string_view name, std::string_view hostname) {
  if (name == "localhost" || name.starts_with("127.") || name == "::1") return true;
  if (is_same_name(name, hostname)) return true;
  const auto ip = parse_ip(std::string(name));
  return ip && is_own_address(*ip);
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  const auto last = names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(names.begin(), last, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

}  // namespace rlx::launcher
