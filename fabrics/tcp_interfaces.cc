// SPDX-License-Identifier: MIT OR Apache-2.0
// Which of this host's addresses are worth listening on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/words.h"
#include "fabrics/tcp_address.h"

namespace rlx::tcp {
namespace {

struct Network {
  IpAddress ip;
  int prefix_bits;
};

std::optional<Network> parse_cidr(const std::string& word) {
  const auto slash = word.find('/');
  const auto ip = parse_ip(word.substr(0, slash));
  if (!ip) return std::nullopt;
  Network network = {*ip, ip->v6 ? 128 : 32};
  if (slash == std::string::npos) return network;
  int bits = -1;
  const char* const end = word.data() + word.size();
  const auto got = std::from_chars(word.data() + slash + 1, end, bits);
  if (got.ec != std::errc() || got.ptr != end || bits < 0 || bits > network.prefix_bits)
    return std::nullopt;
  network.prefix_bits = bits;
  return network;
}

std::string show(const std::vector<Interface>& interfaces) {
  std::vector<std::string> words;
  for (const auto& i : interfaces)
    words.push_back(fmt::format("{} {}/{}", i.name, to_string(i.ip), i.prefix_bits));
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

// Keeps what the words of RLX_NET name. A word may name nothing here if another one does: hosts of
// one job can differ.
Result<std::vector<Interface>> named_by(const std::vector<Interface>& all, std::string_view net) {
  std::vector<Interface> kept;
  for (const auto& word : words_of(net, ",")) {
    const auto network = parse_cidr(word);
    if (!network && word.find('/') != std::string::npos)
      return fail(Code::kInvalid,
                  fmt::format("RLX_NET={}: '{}' is not a network in CIDR form, such "
                              "as 10.0.0.0/8 or fd00::/64",
                              net, word));
    for (const auto& interface : all) {
      if (network ? !same_network(network->ip, interface.ip, network->prefix_bits)
                  : interface.name != word)
        continue;
      const bool have = std::any_of(kept.begin(), kept.end(),
                                    [&](const Interface& k) { return k.ip == interface.ip; });
      if (!have) kept.push_back(interface);
    }
  }
  if (kept.empty())
    return fail(
        Code::kInvalid,
        fmt::format("RLX_NET={}: names no interface and no network of this host. Up here: {}", net,
                    show(all)));
  return kept;
}

}  // namespace

Result<std::vector<Interface>> select_interfaces(std::vector<Interface> all, std::string_view net,
                                                 bool host_only) {
  sort_by_use(all);
  const auto is_loop = [](const Interface& i) { return i.kind == Interface::Kind::loopback; };
  const auto loop = std::find_if(all.begin(), all.end(), is_loop);
  std::vector<Interface> chosen;
  if (!host_only || loop == all.end()) {
    chosen = all;
    if (!net.empty()) {
      RLX_TRY_ASSIGN(chosen, named_by(all, net));
    }
    std::erase_if(chosen, is_loop);
    if (chosen.size() > kMaxSockets - 1) chosen.resize(kMaxSockets - 1);
  }
  if (loop != all.end()) chosen.push_back(*loop);
  if (chosen.empty())
    return fail(Code::kUnreachable, "no network interface is up, not even the loopback");
  return chosen;
}

}  // namespace rlx::tcp
