// SPDX-License-Identifier: MIT OR Apache-2.0
// Every struct is described once, in fields(); writing and reading follow from it.
#include "launcher/node_codec.h"

#include <fmt/format.h>

#include <concepts>
#include <optional>
#include <tuple>
#include <type_traits>

#include "base/bytes.h"
#include "base/cpu_set.h"

namespace rlx::launcher {
namespace {

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
constexpr std::uint8_t kLastOf = 0;
template <>
constexpr auto kLastOf<Stream> = static_cast<std::uint8_t>(Stream::kStderr);
template <>
constexpr auto kLastOf<pmix::Control::Kind> = static_cast<std::uint8_t>(pmix::Control::Kind::kKill);
template <>
constexpr auto kLastOf<Code> = static_cast<std::uint8_t>(Code::kInternal);

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
bool is_consistent(const JobSpec& job) {
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
bool is_consistent(const Hello& hello) {
  return !hello.settings.agent.empty() && hello.settings.radix > 0 && hello.settings.ping_s >= 0;
}
bool is_consistent(const Welcome& welcome) {
  for (const auto& address : welcome.addresses)
    if (address.prefix_bits < 0 || address.prefix_bits > (address.ip.v6 ? 128 : 32)) return false;
  return welcome.free_port >= 0 && welcome.free_port <= 65535;
}
bool is_consistent(const Lost& lost) { return !lost.nodes.empty(); }

// Reads the arguments of a method and calls it.
template <class Target, class... Arguments>
bool call(const Frame& frame, Target& target, void (Target::*method)(Arguments...)) {
  std::tuple<std::remove_cvref_t<Arguments>...> arguments;
  Reading in(frame.body);
  const bool consistent = std::apply(
      [&](auto&... each) {
        in(each...);
        return in.good() && (is_consistent(each) && ...);
      },
      arguments);
  if (!consistent) return false;
  std::apply([&](auto&... each) { (target.*method)(std::move(each)...); }, arguments);
  return true;
}

template <class T>
Result<T> decoded(std::string_view body, const char* what) {
  T value;
  Reading in(body);
  in(value);
  if (!in.good() || !is_consistent(value))
    return fail(Code::kInvalid, fmt::format("a malformed {} message", what));
  return value;
}

Status refused(const Frame& frame) {
  return fail(Code::kInvalid,
              fmt::format("a malformed message of kind {} from node {}",
                          static_cast<int>(frame.kind), static_cast<std::int32_t>(frame.from)));
}

}  // namespace

template <class... Arguments>
void NodeSender::send(Kind kind, const Arguments&... arguments) {
  send_({kind, kHeadNode, to_, written(arguments...)});
}
void NodeSender::start(const JobSpec& job) { send(Kind::kStart, job); }
void NodeSender::signal(int signal_number) { send(Kind::kSignal, signal_number); }
void NodeSender::signal_ranks(const std::vector<RankId>& ranks, int signal_number) {
  send(Kind::kSignalRanks, ranks, signal_number);
}
void NodeSender::end(double grace_s, int signal_number) {
  send(Kind::kEnd, grace_s, signal_number);
}
void NodeSender::end_ranks(const std::vector<RankId>& ranks, double grace_s) {
  send(Kind::kEndRanks, ranks, grace_s);
}
void NodeSender::finish() { send(Kind::kFinish); }
void NodeSender::output_taken(RankId rank, Stream stream, std::size_t n_bytes) {
  send(Kind::kOutputTaken, rank, stream, n_bytes);
}
void NodeSender::input(RankId rank, std::string bytes) { send(Kind::kInput, rank, bytes); }
void NodeSender::input_ended(RankId rank) { send(Kind::kInputEnded, rank); }
void NodeSender::resize(RankId rank, WindowSize size) { send(Kind::kResize, rank, size); }
void NodeSender::spawn_answer(std::uint64_t id, const Result<std::string>& job) {
  send(Kind::kSpawnAnswer, id, job);
}
void NodeSender::release() { send(Kind::kRelease); }
void NodeSender::report() { send(Kind::kReport); }

template <class... Arguments>
void EventSender::send(Kind kind, const Arguments&... arguments) {
  send_({kind, from_, kHeadNode, written(arguments...)});
}
void EventSender::started(RankId rank, pid_t pid, const std::string& note) {
  send(Kind::kStarted, rank, pid, note);
}
void EventSender::joined(RankId rank) { send(Kind::kJoined, rank); }
void EventSender::held(RankId rank) { send(Kind::kHeld, rank); }
void EventSender::not_started(std::uint32_t node, std::uint32_t job, const StartProblem& problem) {
  send(Kind::kNotStarted, node, job, problem);
}
void EventSender::output(RankId rank, Stream stream, Text text) {
  send(Kind::kOutput, rank, stream, text);
}
void EventSender::output_ended(RankId rank, Stream stream) {
  send(Kind::kOutputEnded, rank, stream);
}
void EventSender::output_lost(RankId rank, const std::string& problem) {
  send(Kind::kOutputLost, rank, problem);
}
void EventSender::exited(RankId rank, int wait_status, const pmix::RankState& state) {
  send(Kind::kExited, rank, wait_status, state);
}
void EventSender::aborted(RankId by, int status, const std::string& message,
                          const std::vector<RankId>& victims) {
  send(Kind::kAborted, by, status, message, victims);
}
void EventSender::control_wanted(RankId by, const pmix::Control& control,
                                 const std::vector<RankId>& targets) {
  send(Kind::kControlWanted, by, control, targets);
}
void EventSender::spawn_wanted(RankId by, pmix::SpawnRequest request) {
  send(Kind::kSpawnWanted, by, request);
}
void EventSender::input_taken(RankId rank, std::size_t n_bytes, bool closed) {
  send(Kind::kInputTaken, rank, n_bytes, closed);
}
void EventSender::reported(const std::vector<std::string>& lines) { send(Kind::kReported, lines); }
void EventSender::quiet() { send(Kind::kQuiet); }

Status deliver(const Frame& frame, Node& node) {
  const auto to = [&](auto method) { return call(frame, node, method); };
  bool done = false;
  switch (frame.kind) {
    case Kind::kStart:
      done = to(&Node::start);
      break;
    case Kind::kSignal:
      done = to(&Node::signal);
      break;
    case Kind::kSignalRanks:
      done = to(&Node::signal_ranks);
      break;
    case Kind::kEnd:
      done = to(&Node::end);
      break;
    case Kind::kEndRanks:
      done = to(&Node::end_ranks);
      break;
    case Kind::kFinish:
      done = to(&Node::finish);
      break;
    case Kind::kOutputTaken:
      done = to(&Node::output_taken);
      break;
    case Kind::kInput:
      done = to(&Node::input);
      break;
    case Kind::kInputEnded:
      done = to(&Node::input_ended);
      break;
    case Kind::kResize:
      done = to(&Node::resize);
      break;
    case Kind::kSpawnAnswer:
      done = to(&Node::spawn_answer);
      break;
    case Kind::kRelease:
      done = to(&Node::release);
      break;
    case Kind::kReport:
      done = to(&Node::report);
      break;
    default:
      break;
  }
  return done ? Status() : refused(frame);
}

Status deliver(const Frame& frame, NodeEvents& head) {
  const auto to = [&](auto method) { return call(frame, head, method); };
  bool done = false;
  switch (frame.kind) {
    case Kind::kStarted:
      done = to(&NodeEvents::started);
      break;
    case Kind::kJoined:
      done = to(&NodeEvents::joined);
      break;
    case Kind::kHeld:
      done = to(&NodeEvents::held);
      break;
    case Kind::kNotStarted:
      done = to(&NodeEvents::not_started);
      break;
    case Kind::kOutput:
      done = to(&NodeEvents::output);
      break;
    case Kind::kOutputEnded:
      done = to(&NodeEvents::output_ended);
      break;
    case Kind::kOutputLost:
      done = to(&NodeEvents::output_lost);
      break;
    case Kind::kExited:
      done = to(&NodeEvents::exited);
      break;
    case Kind::kAborted:
      done = to(&NodeEvents::aborted);
      break;
    case Kind::kControlWanted:
      done = to(&NodeEvents::control_wanted);
      break;
    case Kind::kSpawnWanted:
      done = to(&NodeEvents::spawn_wanted);
      break;
    case Kind::kInputTaken:
      done = to(&NodeEvents::input_taken);
      break;
    case Kind::kReported:
      done = to(&NodeEvents::reported);
      break;
    case Kind::kQuiet:
      done = to(&NodeEvents::quiet);
      break;
    default:
      break;
  }
  return done ? Status() : refused(frame);
}

std::string encode(const Hello& hello) { return written(hello); }
std::string encode(const Welcome& welcome) { return written(welcome); }
std::string encode(const Lost& lost) { return written(lost); }
Result<Hello> decode_hello(std::string_view body) { return decoded<Hello>(body, "hello"); }
Result<Welcome> decode_welcome(std::string_view body) { return decoded<Welcome>(body, "welcome"); }
Result<Lost> decode_lost(std::string_view body) { return decoded<Lost>(body, "lost"); }

}  // namespace rlx::launcher
