// SPDX-License-Identifier: MIT OR Apache-2.0
// Bytes of what frames carry. Every struct is described once, in fields(); writing and reading
// follow from it.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "base/cpu_set.h"
#include "launcher/node_codec.h"

namespace rlx::launcher::codec {

template <class T, class U>
concept Like = std::same_as<std::remove_cvref_t<T>, U>;

void fields(auto& a, Like<RankId> auto& s) { a(s.job, s.rank); }
void fields(auto& a, Like<pmix::ProcId> auto& s) { a(s.job, s.rank); }
void fields(auto& a, Like<AppSpec> auto& s) {
  a(s.argv, s.wdir, s.environment, s.chosen, s.n_ranks, s.pmi1);
}
void fields(auto& a, Like<RankSpec> auto& s) {
  a(s.node, s.app, s.local_rank, s.cpus, s.threads, s.environment);
}
void fields(auto& a, Like<OutputSpec> auto& s) {
  a(s.return_ends_line, s.merge_stderr, s.timestamp, s.files, s.append, s.send, s.window);
}
void fields(auto& a, Like<WindowSize> auto& s) { a(s.rows, s.columns); }
void fields(auto& a, Like<PtySpec> auto& s) { a(s.rank, s.size); }
void fields(auto& a, Like<JobSpec> auto& s) {
  a(s.number, s.name, s.id, s.nodes, s.apps, s.ranks, s.universe_size, s.oversubscribed, s.parent,
    s.master_address, s.master_port, s.output, s.stdin_ranks, s.stacks, s.stop_in_init,
    s.inherit_stdin, s.pty);
}
void fields(auto& a, Like<StartProblem> auto& s) { a(s.exit_code, s.text); }
void fields(auto& a, Like<Text> auto& s) { a(s.bytes, s.whole); }
void fields(auto& a, Like<pmix::RankState> auto& s) { a(s.connected, s.finalized); }
void fields(auto& a, Like<pmix::Control> auto& s) { a(s.kind, s.signal_number); }
void fields(auto& a, Like<pmix::SpawnApp> auto& s) {
  a(s.argv, s.environment, s.n_ranks, s.wdir, s.hosts);
}
void fields(auto& a, Like<pmix::SpawnRequest> auto& s) { a(s.id, s.parent, s.apps); }
void fields(auto& a, Like<TreeHost> auto& s) { a(s.node, s.name, s.user, s.port); }
void fields(auto& a, Like<TreeSettings> auto& s) {
  a(s.agent, s.program, s.library_path, s.radix, s.ping_s);
}
void fields(auto& a, Like<Hello> auto& s) {
  a(s.node, s.parent, s.name, s.known_topology, s.settings, s.below);
}
void fields(auto& a, Like<NodeAddress> auto& s) {
  a(s.ip.v6);
  for (auto& byte : s.ip.bytes) a(byte);
  a(s.prefix_bits);
}
void fields(auto& a, Like<Welcome> auto& s) { a(s.facts, s.free_port, s.addresses); }
void fields(auto& a, Like<Lost> auto& s) { a(s.nodes, s.cause); }

class Writing {
 public:
  void operator()(const auto&... values) { (put(values), ...); }
  std::string take() { return out_.take(); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_enum_v<T>)
      out_.put(static_cast<std::uint8_t>(value));
    else if constexpr (std::is_same_v<T, bool>)
      out_.put(static_cast<std::uint8_t>(value));
    else if constexpr (std::is_arithmetic_v<T>)
      out_.put(value);
    else
      fields(*this, value);
  }
  void put(const std::string& text) { out_.put_string(text); }
  template <class T>
  void put(const std::vector<T>& list) {
    out_.put(static_cast<std::uint32_t>(list.size()));
    for (const auto& item : list) put(item);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  void put(const Result<std::string>& result) {
    put(result.has_value());
    if (result) return put(*result);
    put(result.error().code);
    put(result.error().text);
  }
  ByteWriter out_;
};

// Greatest value of each enumeration that travels.
template <class T>
inline constexpr std::uint8_t kLastOf = 0;
template <>
inline constexpr auto kLastOf<Stream> = static_cast<std::uint8_t>(Stream::kStderr);
template <>
inline constexpr auto kLastOf<pmix::Control::Kind> =
    static_cast<std::uint8_t>(pmix::Control::Kind::kKill);
template <>
inline constexpr auto kLastOf<Code> = static_cast<std::uint8_t>(Code::kInternal);

class Reading {
 public:
  explicit Reading(std::string_view bytes) : in_(bytes) {}
  void operator()(auto&... values) { (get(values), ...); }
  bool good() const { return good_ && in_.at_end(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_enum_v<T>) {
      const auto number = in_.get<std::uint8_t>();
      good_ &= number <= kLastOf<T>;
      value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool>) {
      value = in_.get<std::uint8_t>() != 0;
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = in_.get<T>();
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& text) { text = in_.get_string(); }
  template <class T>
  void get(std::vector<T>& list) {
    constexpr std::size_t kLeastItem = 4;  // bytes: no longer list is believed than could be here
    const auto n = in_.get<std::uint32_t>();
    good_ &= n <= in_.left() / kLeastItem;
    for (std::uint32_t i = 0; good_ && in_.ok() && i < n; ++i) get(list.emplace_back());
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool there = false;
    get(there);
    if (there) get(value.emplace());
  }
  void get(Result<std::string>& result) {
    bool there = false;
    get(there);
    if (there) {
      result = std::string();
      return get(*result);
    }
    Error error;
    get(error.code);
    get(error.text);
    result = tl::unexpected(std::move(error));
  }
  ByteReader in_;
  bool good_ = true;
};

std::string written(const auto&... values) {
  Writing out;
  out(values...);
  return out.take();
}

bool is_consistent(const auto&) { return true; }
inline bool is_consistent(const JobSpec& job) {
  for (const auto& app : job.apps)
    if (app.argv.empty()) return false;
  for (const auto& rank : job.ranks)
    if (rank.node >= job.nodes.size() || rank.app >= job.apps.size() ||
        (!rank.cpus.empty() && !CpuSet::parse(rank.cpus)))
      return false;
  for (const auto rank : job.stdin_ranks)
    if (rank >= job.ranks.size()) return false;
  if (job.pty && job.pty->rank >= job.ranks.size()) return false;
  return !job.inherit_stdin;  // nobody here has the user's input
}
inline bool is_consistent(const Hello& hello) {
  return !hello.settings.agent.empty() && hello.settings.radix > 0 && hello.settings.ping_s >= 0;
}
inline bool is_consistent(const Welcome& welcome) {
  for (const auto& address : welcome.addresses)
    if (address.prefix_bits < 0 || address.prefix_bits > (address.ip.v6 ? 128 : 32)) return false;
  return welcome.free_port >= 0 && welcome.free_port <= 65535;
}
inline bool is_consistent(const Lost& lost) { return !lost.nodes.empty(); }

}  // namespace rlx::launcher::codec
