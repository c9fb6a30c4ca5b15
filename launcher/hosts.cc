// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/network.h"
#include "base/words.h"
#include "launcher/host_ranges.h"
#include "launcher/option_values.h"

namespace rlx::launcher {
namespace {

bool is_plain(std::string_view name, std::string_view more) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           static_cast<unsigned char>(c) >= 0x80 || more.find(c) != std::string_view::npos;
  });
}

// "fe80::1", "fe80::1%eth0".
bool is_ipv6(std::string_view word) {
  const auto zone = std::min(word.find('%'), word.size());
  const auto ip = parse_ip(std::string(word.substr(0, zone)));
  return ip && ip->v6 && (zone == word.size() || is_plain(word.substr(zone + 1), "._-"));
}

// The colon before the slots, outside of brackets; the end if there is none.
std::size_t find_slots(std::string_view word) {
  const auto colon = word.rfind(':');
  const auto bracket = word.rfind(']');
  const bool inside = bracket != std::string_view::npos && colon < bracket;
  return colon == std::string_view::npos || inside ? word.size() : colon;
}

Status read_host(std::string_view word, std::vector<HostEntry>& hosts) {
  HostEntry host;
  const std::string typed = excerpt(word);
  host.source = "--host";
  if (word.starts_with('+'))
    return fail(Code::kInvalid, fmt::format("host '{}': want its name, not its place", typed));
  if (const auto at = word.find('@'); at != std::string_view::npos) {
    host.user = word.substr(0, at);
    word.remove_prefix(at + 1);
    if (at == 0) return fail(Code::kInvalid, fmt::format("host '{}': no user before the @", typed));
  }
  std::vector<std::string> names;
  std::size_t end = find_slots(word);
  if (is_ipv6(word)) {
    end = word.size();
    names.emplace_back(word);
  } else if (word.starts_with('[') &&  // around digits, '-' and ',' it is a range
             word.substr(0, word.find(']')).find(':') != std::string_view::npos) {
    if (word.find(']') + 1 != end)
      return fail(Code::kInvalid,
                  fmt::format("host '{}': want [ADDRESS] or [ADDRESS]:SLOTS", typed));
    names.emplace_back(word.substr(1, end - 2));
  } else {
    RLX_TRY_ASSIGN(names, expand_host_word(word.substr(0, end)));
  }
  if (end < word.size()) {
    const auto count = read_count(word.substr(end + 1), 1, kMaxSlots);
    if (!count)
      return fail(Code::kInvalid, fmt::format("host '{}': want NAME or NAME:SLOTS", typed));
    host.slots = *count;
  }
  if (hosts.size() + names.size() > kMaxHosts)
    return fail(Code::kInvalid, fmt::format("more than {} hosts", kMaxHosts));
  for (auto& name : names) {
    hosts.push_back(host);
    hosts.back().name = std::move(name);
    RLX_TRY(check_names(hosts.back()));
  }
  return {};
}

}  // namespace

Status check_names(const HostEntry& host) {
  constexpr std::string_view kMarks = "._-";
  if (!is_ipv6(host.name) &&
      (!is_plain(host.name, kMarks) || host.name.starts_with('-') || host.name.starts_with('.')))
    return fail(
        Code::kInvalid,
        fmt::format("host '{}': this is no host's name; want letters, digits, '.', '_', '-', "
                    "or an address",
                    excerpt(host.name)));
  if (!host.user.empty() && (!is_plain(host.user, "._-+@") || host.user.starts_with('-')))
    return fail(Code::kInvalid, fmt::format("host '{}': '{}' is no user's name", excerpt(host.name),
                                            excerpt(host.user)));
  return {};
}

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
