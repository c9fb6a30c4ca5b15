// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/host_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/words.h"
#include "launcher/host_ranges.h"
#include "launcher/hosts.h"
#include "launcher/option_values.h"

namespace rlx::launcher {
namespace {

using nlohmann::json;

constexpr const char* kWanted =
    "want 'HOST [slots=N] [max_slots=N] [user=NAME] [port=N]' or 'HOST:N'";

// The words of a line, "slots = 2" being one, as for Open MPI.
std::vector<std::string> settings_of(std::string_view line) {
  std::vector<std::string> joined;
  for (auto& word : words_of(line))
    if (!joined.empty() && (word.starts_with('=') || joined.back().ends_with('=')))
      joined.back() += word;
    else
      joined.push_back(std::move(word));
  return joined;
}

// One "key=value" of a line.
Status read_setting(std::string_view word, HostEntry& host) {
  const auto equals = word.find('=');
  const auto key = word.substr(0, equals);
  const auto value = equals == std::string_view::npos ? "" : word.substr(equals + 1);
  const auto number = [&](int most, int& out) -> Status {
    RLX_TRY_ASSIGN(out, read_count(value, 1));
    return out <= most ? Status()
                       : fail(Code::kInvalid, fmt::format("'{}' is more than {}", value, most));
  };
  if (key == "slots") return number(kMaxSlots, host.slots);
  if (key == "max_slots" || key == "max-slots") return number(kMaxSlots, host.max_slots);
  if (key == "port") return number(65535, host.port);
  if (key == "user" && !value.empty()) {
    host.user = value;
    return {};
  }
  const char* const instead =  // of what MPICH reads there
      key == "ifhn"      ? "take it out; all networks are tried, or those that RLX_NET names"
      : key == "binding" ? "take it out; --bind-to and --map-by say where ranks run"
                         : kWanted;
  return fail(Code::kInvalid, fmt::format("'{}': {}", excerpt(word), instead));
}

Status read_line(std::string_view line, std::vector<HostEntry>& hosts, const std::string& place) {
  const auto words = settings_of(line.substr(0, line.find('#')));
  if (words.empty()) return {};
  RLX_TRY_ASSIGN(auto named, read_host_list(words[0]));
  if (split_host_words(words[0]).size() > 1)
    return fail(Code::kInvalid, fmt::format("'{}': one host a line", excerpt(words[0])));
  for (auto& host : named) {
    for (std::size_t i = 1; i < words.size(); ++i) RLX_TRY(read_setting(words[i], host));
    if (host.max_slots > 0 && host.slots > host.max_slots)
      return fail(Code::kInvalid,
                  fmt::format("slots={} is more than max_slots={}", host.slots, host.max_slots));
    host.source = place;
    hosts.push_back(std::move(host));
  }
  if (hosts.size() > kMaxHosts)
    return fail(Code::kInvalid, fmt::format("more than {} hosts", kMaxHosts));
  return {};
}

// One object of MLX's array: "ssh" is how to reach it. An entry is a rank, so that a host with two
// of them is there twice.
Status read_object(const json& object, HostEntry& host) {
  constexpr const char* kWantedObject = R"(want "HOST" or {"ssh": "HOST", "ips": [...]})";
  const auto text = [&](const char* key) -> std::string {
    const auto found = object.find(key);
    if (found == object.end()) return "";
    const json& value = found->is_array() && !found->empty() ? found->front() : *found;
    return value.is_string() ? value.get<std::string>() : "";
  };
  if (!object.is_object() && !object.is_string()) return fail(Code::kInvalid, kWantedObject);
  const std::string name = object.is_string()    ? object.get<std::string>()
                           : text("ssh").empty() ? text("ips")
                                                 : text("ssh");
  if (name.empty()) return fail(Code::kInvalid, kWantedObject);
  const auto at = name.find('@');
  if (at != std::string::npos) host.user = name.substr(0, at);
  host.name = at == std::string::npos ? name : name.substr(at + 1);
  if (object.is_object()) host.slots = 1;
  if (const auto slots = object.find("slots"); slots != object.end()) {
    if (!slots->is_number_unsigned() || slots->get<std::uint64_t>() < 1 ||
        slots->get<std::uint64_t>() > kMaxSlots)
      return fail(Code::kInvalid, fmt::format("slots: want a number from 1 to {}", kMaxSlots));
    host.slots = slots->get<int>();
  }
  return host.name.empty() ? fail(Code::kInvalid, kWantedObject) : Status();
}

Result<std::vector<HostEntry>> parse_json(std::string_view text, const std::string& name) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(error.byte, text.size()));
    return fail(Code::kInvalid, fmt::format("{}:{}: this is not JSON", name,
                                            1 + std::count(text.begin(), end, '\n')));
  }
  if (document.is_object()) {
    if (const auto envs = document.find("envs"); envs != document.end() && !envs->empty())
      return fail(Code::kInvalid,
                  fmt::format("{}: \"envs\" is not read; take it out, and pass each variable with "
                              "-x NAME=VALUE",
                              name));
    document = document.value("hosts", json());
  }
  if (!document.is_array())
    return fail(Code::kInvalid,
                fmt::format(R"({}: want an array of hosts or {{"hosts": [...]}})", name));
  std::vector<HostEntry> hosts;
  for (std::size_t i = 0; i < document.size(); ++i) {
    HostEntry host;
    host.source = fmt::format("{}[{}]", name, i);
    if (auto status = read_object(document[i], host); !status)
      return fail(Code::kInvalid, fmt::format("{}: {}", host.source, status.error().text));
    hosts.push_back(std::move(host));
    if (hosts.size() > kMaxHosts)
      return fail(Code::kInvalid, fmt::format("{}: more than {} hosts", name, kMaxHosts));
  }
  return hosts;
}

}  // namespace

Result<std::vector<HostEntry>> parse_host_file(std::string_view text, const std::string& name) {
  std::vector<HostEntry> hosts;
  // Editors on Windows begin a file with the mark of UTF-8.
  if (constexpr std::string_view kMark = "\xef\xbb\xbf"; text.starts_with(kMark))
    text.remove_prefix(kMark.size());
  // A bracket also begins an IPv6 address and a range of names that are numbers.
  const auto all = trimmed(text);
  const auto inside = all.starts_with('[') ? trimmed(all.substr(1)) : "";
  if (all == "[" || all.starts_with('{') || inside.starts_with('{') || inside.starts_with('"') ||
      inside.starts_with(']')) {
    RLX_TRY_ASSIGN(hosts, parse_json(text, name));
  } else {
    std::size_t number = 0;
    for (const auto& line : split(text, '\n')) {
      const std::string place = fmt::format("{}:{}", name, ++number);
      if (auto status = read_line(line, hosts, place); !status)
        return fail(Code::kInvalid, fmt::format("{}: {}", place, status.error().text));
    }
  }
  for (const auto& host : hosts)
    if (auto status = check_names(host); !status)
      return fail(Code::kInvalid, fmt::format("{}: {}", host.source, status.error().text));
  if (hosts.empty())
    return fail(Code::kInvalid, fmt::format("{}: this file names no host; {}", name, kWanted));
  return hosts;
}

Result<std::vector<HostEntry>> read_host_file(const std::string& path) {
  RLX_TRY_ASSIGN(const auto text, read_file(path));
  return parse_host_file(text, path);
}

}  // namespace rlx::launcher
