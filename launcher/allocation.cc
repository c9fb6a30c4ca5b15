// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/words.h"
#include "launcher/host_file.h"
#include "launcher/host_table.h"
#include "launcher/hosts.h"
#include "launcher/resource_manager.h"

namespace rlx::launcher {
namespace {

using Entries = std::vector<HostEntry>;
using Mentions = std::vector<std::uint32_t>;

std::string some_names(const Entries& hosts) {
  std::vector<std::string> names;
  for (const auto& host : hosts) names.push_back(host.name);
  return some_of(names);
}

// How a host of `base` is when it is named in a list: a list may ask for less, never for more.
HostEntry narrowed(const HostEntry& base, const HostEntry& named, bool has_number) {
  HostEntry host = base;
  if (!named.user.empty()) host.user = named.user;
  if (named.port > 0) host.port = named.port;
  if (named.max_slots > 0)
    host.max_slots =
        base.max_slots > 0 ? std::min(base.max_slots, named.max_slots) : named.max_slots;
  if (has_number && (base.slots == 0 || named.slots <= base.slots)) {
    host.slots = named.slots;
    host.source = named.source;
    host.at_most_cores = false;
  }
  return host;
}

// Reads what is given in the order in which it counts: a manager's hosts, files, which only choose
// among these if there are any, and lists, which only choose among what there is so far.
class Reader {
 public:
  Reader(const CommandLine& line, const Environment& environment, const std::string& hostname)
      : line_(line), environment_(environment), hostname_(hostname), table_(hostname) {}

  Result<Allocation> read() {
    out_.source = "this host";
    RLX_TRY(ask_manager());
    RLX_TRY(read_files());
    RLX_TRY(read_lists());
    if (!out_.named) {
      HostEntry host;
      host.name = hostname_;
      host.source = "this host";
      mention(out_.mentions, table_.add(host), 1);
    }
    out_.hosts = table_.hosts();
    return std::move(out_);
  }

 private:
  static void mention(Mentions& mentions, std::uint32_t host, int slots) {
    mentions.insert(mentions.end(), static_cast<std::size_t>(std::max(slots, 1)), host);
  }

  // The variable counts where no option names hosts.
  std::optional<std::string> usual_file() const {
    const auto path = environment_.get("RLX_HOSTFILE");
    const bool all_named = std::all_of(
        line_.apps.begin(), line_.apps.end(),
        [](const AppLine& app) { return !app.hosts.empty() || !app.host_files.empty(); });
    return path && !path->empty() && !all_named ? path : std::nullopt;
  }

  Status ask_manager() {
    if (line_.manager == Manager::kNone) {
      out_.notes.emplace_back("--rm none: no resource manager is asked for hosts");
      return {};
    }
    RLX_TRY_ASSIGN(const auto found,
                   hosts_of_manager(line_.manager, environment_, hostname_, out_.notes));
    if (!found) return {};
    out_.manager = found->manager;
    out_.source = found->job;
    out_.named = true;
    out_.notes.push_back(fmt::format("hosts are those of {} ({})", found->job, found->how));
    for (const auto& host : found->hosts) mention(out_.mentions, table_.add(host), host.slots);
    return {};
  }

  Status read_files() {
    std::vector<std::string> paths;  // each once, however often it is named
    for (const auto& app : line_.apps)
      for (const auto& path : app.host_files)
        if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
    const auto usual = usual_file();
    if (usual && paths.empty()) paths.push_back(*usual);
    Entries entries;
    for (const auto& path : paths) {
      const auto some = read_host_file(path);
      const char* who = usual && path == *usual ? "RLX_HOSTFILE" : "--hostfile";
      if (!some) return fail(Code::kInvalid, fmt::format("{}: {}", who, some.error().text));
      entries.insert(entries.end(), some->begin(), some->end());
      of_file_.emplace_back(path, *some);
    }
    if (entries.empty()) return {};
    RLX_TRY(choose(entries));
    out_.source = fmt::format("{}{}", usual && paths[0] == *usual ? "RLX_HOSTFILE=" : "", paths[0]);
    out_.notes.push_back("hosts are those of " + out_.source);
    return {};
  }

  Status read_lists() {
    Entries all;
    std::vector<Entries> of_app;
    for (const auto& app : line_.apps) {
      Entries& entries = of_app.emplace_back();
      if (!app.hosts.empty()) {
        RLX_TRY_ASSIGN(entries, read_host_list(app.hosts));
        all.insert(all.end(), entries.begin(), entries.end());
      } else if (line_.apps.size() > 1) {
        for (const auto& path : app.host_files)
          for (const auto& [name, hosts] : of_file_)
            if (name == path) entries.insert(entries.end(), hosts.begin(), hosts.end());
      }
    }
    const bool some_app_takes_all = std::any_of(line_.apps.begin(), line_.apps.end(),
                                                [](const auto& app) { return app.hosts.empty(); });
    const std::string source = out_.named ? out_.source : "--host";
    if (!all.empty()) {
      if (!out_.named || !some_app_takes_all)
        RLX_TRY(choose(all));
      else
        RLX_TRY(check(all));
      out_.source = source;
      out_.notes.push_back(fmt::format("--host names {}", some_names(table_.hosts())));
    }
    for (const auto& entries : of_app) {
      Mentions& mentions = out_.of_app.emplace_back();
      for (const auto& entry : entries) mention(mentions, *table_.find(entry.name), entry.slots);
    }
    return {};
  }

  Status check(const Entries& entries) const {
    for (const auto& entry : entries)
      if (!table_.find(entry.name))
        return fail(
            Code::kInvalid,
            fmt::format(
                "host '{}' ({}) is not in {}, which has {}; a list only chooses among them{}",
                entry.name, entry.source, out_.source, some_names(table_.hosts()),
                out_.manager == Manager::kNone ? "" : " (--rm none: use any host, by ssh)"));
    return {};
  }

  // From here on these are the hosts, in this order; they must be among those known so far, if any
  // are.
  Status choose(const Entries& entries) {
    if (out_.named) RLX_TRY(check(entries));
    HostTable named(hostname_), chosen(hostname_);
    std::vector<bool> has_number;
    out_.mentions.clear();
    for (auto entry : entries) {
      if (out_.named) entry.name = table_.hosts()[*table_.find(entry.name)].name;
      const auto index = named.add(entry);
      if (index == has_number.size())
        has_number.push_back(entry.slots > 0);
      else
        has_number[index] = true;
      mention(out_.mentions, index, entry.slots);
    }
    for (std::size_t i = 0; i < has_number.size(); ++i) {
      const HostEntry& host = named.hosts()[i];
      if (!out_.named) {
        chosen.add(host);
        continue;
      }
      const HostEntry& base = table_.hosts()[*table_.find(host.name)];
      if (has_number[i] && base.slots > 0 && host.slots > base.slots)
        out_.warnings.push_back(fmt::format("{}:{} ({}): {} has {} there", host.name, host.slots,
                                            host.source, out_.source, counted(base.slots, "slot")));
      chosen.add(narrowed(base, host, has_number[i]));
    }
    table_ = std::move(chosen);
    out_.named = true;
    return {};
  }

  const CommandLine& line_;
  const Environment& environment_;
  const std::string& hostname_;
  HostTable table_;
  std::vector<std::pair<std::string, Entries>> of_file_;
  Allocation out_;
};

}  // namespace

Result<Allocation> read_allocation(const CommandLine& line, const Environment& environment,
                                   const std::string& hostname) {
  return Reader(line, environment, hostname).read();
}

void leave_out(Allocation& allocation, std::string_view names) {
  const auto lost = words_of(names, ",");
  std::vector<std::optional<std::uint32_t>> number;
  for (auto& host : std::exchange(allocation.hosts, {})) {
    const bool stays = std::find(lost.begin(), lost.end(), host.name) == lost.end();
    number.push_back(stays ? std::optional(static_cast<std::uint32_t>(allocation.hosts.size()))
                           : std::nullopt);
    if (stays) allocation.hosts.push_back(std::move(host));
  }
  const auto renumber = [&](Mentions& mentions) {
    for (const auto host : std::exchange(mentions, {}))
      if (number[host]) mentions.push_back(*number[host]);
  };
  renumber(allocation.mentions);
  for (auto& mentions : allocation.of_app) renumber(mentions);
}

Result<std::vector<std::vector<std::uint32_t>>> hosts_of_apps(const std::vector<AppLine>& apps,
                                                              const Allocation& allocation,
                                                              const std::string& hostname) {
  HostTable table(hostname);
  for (const auto& host : allocation.hosts) table.add(host);
  std::vector<Mentions> of_app;
  for (const auto& app : apps) {
    Mentions& mentions = of_app.emplace_back();
    if (app.hosts.empty()) continue;
    RLX_TRY_ASSIGN(const auto entries, read_host_list(app.hosts));
    for (const auto& entry : entries) {
      const auto index = table.find(entry.name);
      if (!index)
        return fail(Code::kInvalid, fmt::format("host '{}' is not one of the job's: {}", entry.name,
                                                some_names(allocation.hosts)));
      mentions.insert(mentions.end(), static_cast<std::size_t>(std::max(entry.slots, 1)), *index);
    }
  }
  return of_app;
}

}  // namespace rlx::launcher
