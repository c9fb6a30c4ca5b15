// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/hosts.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "launcher/option_values.h"

namespace rlx::launcher {
namespace {

Result<HostEntry> read_host(std::string_view word) {
  HostEntry host;
  const std::string typed(word);
  host.source = "--host";
  if (const auto at = word.find('@'); at != std::string_view::npos) {
    host.user = word.substr(0, at);
    word.remove_prefix(at + 1);
  }
  std::string_view slots;
  if (word.starts_with('[') && word.find(']') != std::string_view::npos) {  // IPv6
    const auto end = word.find(']');
    host.name = word.substr(1, end - 1);
    slots = word.substr(end + 1);
  } else if (std::count(word.begin(), word.end(), ':') > 1) {  // IPv6 without brackets
    host.name = word;
  } else {
    const auto colon = std::min(word.find(':'), word.size());
    host.name = word.substr(0, colon);
    slots = word.substr(colon);
  }
  if (host.name.empty()) return fail(Code::kInvalid, fmt::format("host '{}' has no name", typed));
  if (slots.empty()) return host;
  const auto count = slots.starts_with(':') ? read_count(slots.substr(1), 1)
                                            : Result<int>(fail(Code::kInvalid, ""));
  if (!count) return fail(Code::kInvalid, fmt::format("host '{}': want NAME or NAME:SLOTS", typed));
  host.slots = *count;
  return host;
}

bool is_own_address(const std::string& name) {
  in6_addr wanted6{};
  in_addr wanted{};
  const bool v4 = inet_pton(AF_INET, name.c_str(), &wanted) == 1;
  if (!v4 && inet_pton(AF_INET6, name.c_str(), &wanted6) != 1) return false;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, freeifaddrs);
  for (; list; list = list->ifa_next) {
    if (!list->ifa_addr) continue;
    if (v4 && list->ifa_addr->sa_family == AF_INET &&
        reinterpret_cast<sockaddr_in*>(list->ifa_addr)->sin_addr.s_addr == wanted.s_addr)
      return true;
    if (!v4 && list->ifa_addr->sa_family == AF_INET6 &&
        IN6_ARE_ADDR_EQUAL(&reinterpret_cast<sockaddr_in6*>(list->ifa_addr)->sin6_addr, &wanted6))
      return true;
  }
  return false;
}

}  // namespace

Result<std::vector<HostEntry>> read_host_list(std::string_view list) {
  std::vector<HostEntry> hosts;
  while (true) {
    const auto comma = list.find(',');
    RLX_TRY_ASSIGN(auto host, read_host(list.substr(0, comma)));
    hosts.push_back(std::move(host));
    if (comma == std::string_view::npos) return hosts;
    list.remove_prefix(comma + 1);
  }
}

std::string own_hostname() {
  char name[HOST_NAME_MAX + 1] = "";
  gethostname(name, sizeof name - 1);
  return name[0] ? name : "localhost";
}

bool is_this_host(std::string_view name, std::string_view hostname) {
  if (name == "localhost" || name == hostname || name.starts_with("127.") || name == "::1")
    return true;
  const auto is_short_for = [](std::string_view a, std::string_view b) {
    return b.size() > a.size() && b.starts_with(a) && b[a.size()] == '.';
  };
  return is_short_for(name, hostname) || is_short_for(hostname, name) ||
         is_own_address(std::string(name));
}

}  // namespace rlx::launcher
