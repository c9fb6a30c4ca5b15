// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/node_codec.h"

#include <fmt/format.h>

#include <tuple>
#include <type_traits>

#include "launcher/node_fields.h"

namespace rlx::launcher {
namespace {

using namespace codec;

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
