// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls survive being frames; what is no frame makes no call.
#include <criterion/criterion.h>
#include <signal.h>

#include "launcher/agent.h"
#include "launcher/node_codec.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

JobSpec some_job() {
  JobSpec job;
  job.number = 3;
  job.name = "rlx-name";
  job.id = "0123";
  job.nodes = {"a", "b"};
  job.apps.push_back({{"prog", "", "a b"}, "/wd", {"A=1", "B=\n"}, {"B"}, 2, true});
  job.ranks.push_back({0, 0, 0, "0-3", 2, {"CUDA_VISIBLE_DEVICES=1"}});
  job.ranks.push_back({1, 0, 0, "", 0, {}});
  job.parent = pmix::ProcId{"parent", 7};
  job.master_address = "10.0.0.1";
  job.master_port = 4711;
  job.output.window = 1 << 20;
  job.output.files = "/out/%r";
  job.stdin_ranks = {1};
  job.stop_in_init = true;
  job.pty = PtySpec{1, {24, 80}};
  return job;
}

// All calls of a Node or NodeEvents, once each.
void make_calls(Node& node) {
  node.start(some_job());
  node.signal(SIGUSR1);
  node.signal_ranks({{0, 1}}, SIGUSR2);
  node.end(0.25, SIGINT);
  node.end_ranks({{0, 1}, {2, 3}}, 1.5);
  node.finish();
  node.output_taken({0, 1}, Stream::kStderr, 1ul << 40);
  node.input({0, 1}, std::string("a\0b", 3));
  node.input_ended({0, 1});
  node.resize({0, 1}, {24, 80});
  node.spawn_answer(9, std::string("job"));
  node.spawn_answer(10, fail(Code::kInvalid, "why"));
  node.release();
  node.report();
}
void make_calls(NodeEvents& head) {
  head.started({0, 1}, 4321, "note");
  head.joined({0, 1});
  head.held({0, 1});
  head.not_started(1, 0, {127, "text"});
  head.output({0, 1}, Stream::kStdout, {"line\n", true});
  head.output_ended({0, 1}, Stream::kStderr);
  head.output_lost({0, 1}, "no space");
  head.exited({0, 1}, 256, {true, false});
  head.aborted({0, 1}, 7, "message", {{0, 0}});
  head.control_wanted({0, 1}, {pmix::Control::Kind::kKill, 0}, {{0, 0}, {1, 2}});
  head.spawn_wanted({0, 1}, {5, {"job", 1}, {{{"x"}, {"E=1"}, 2, "/", "h"}}});
  head.input_taken({0, 1}, 100, true);
  head.reported({"one", ""});
  head.quiet();
}

// What is sent, once directly and once through frames on the way, must be the same.
template <class Sender, class Target>
void expect_same_calls(std::size_t n_calls) {
  std::vector<Frame> direct, passed;
  Sender sender(5, [&](Frame frame) { direct.push_back(std::move(frame)); });
  make_calls(sender);
  cr_expect_eq(direct.size(), n_calls);
  Sender again(5, [&](Frame frame) { passed.push_back(std::move(frame)); });
  FrameReader reader;
  for (const auto& frame : direct) {
    const FrameBytes bytes = encode(frame);
    for (std::size_t i = 0; i < bytes->size(); ++i) {  // byte by byte
      const auto none = reader.next();
      cr_assert(none.has_value() && !none->has_value());
      reader.take(std::string_view(*bytes).substr(i, 1));
    }
    const auto whole = reader.next();
    cr_assert(whole.has_value() && whole->has_value());
    cr_expect(deliver(**whole, static_cast<Target&>(again)).has_value());
  }
  cr_assert_eq(passed.size(), direct.size());
  for (std::size_t i = 0; i < direct.size(); ++i) {
    cr_expect(passed[i].kind == direct[i].kind && passed[i].body == direct[i].body, "call %zu", i);
    // Neither cut nor lengthened is it a call.
    for (std::size_t cut = 0; cut < direct[i].body.size(); ++cut) {
      Frame frame = direct[i];
      frame.body.resize(cut);
      cr_expect(!deliver(frame, static_cast<Target&>(again)), "call %zu cut at %zu", i, cut);
    }
    Frame frame = direct[i];
    frame.body += '\0';
    cr_expect(!deliver(frame, static_cast<Target&>(again)), "call %zu", i);
  }
}

}  // namespace

Test(frames, carry_every_call_unchanged) {
  expect_same_calls<NodeSender, Node>(14);
  expect_same_calls<EventSender, NodeEvents>(14);
}

Test(frames, with_inconsistent_jobs_are_refused) {
  const auto refused = [](const auto& spoil) {
    JobSpec job = some_job();
    spoil(job);
    Frame sent;
    NodeSender sender(0, [&](Frame frame) { sent = std::move(frame); });
    sender.start(job);
    NodeSender nobody(0, [](const Frame&) { cr_expect(false, "a call was made"); });
    return !deliver(sent, nobody);
  };
  cr_expect(refused([](JobSpec& job) { job.ranks[0].node = 2; }));
  cr_expect(refused([](JobSpec& job) { job.ranks[0].app = 1; }));
  cr_expect(refused([](JobSpec& job) { job.ranks[0].cpus = "3-1"; }));
  cr_expect(refused([](JobSpec& job) { job.stdin_ranks = {2}; }));
  cr_expect(refused([](JobSpec& job) { job.pty->rank = 2; }));
  cr_expect(refused([](JobSpec& job) { job.apps[0].argv.clear(); }));
  cr_expect(refused([](JobSpec& job) { job.inherit_stdin = true; }));
}

Test(frames, of_no_known_kind_or_size_end_the_stream) {
  using namespace std::string_literals;
  for (const auto& bytes : {"\x08\0\0\0\x01\0\0\0\0\0\0\0\0"s, "\xff\xff\xff\xff\x01"s,
                            "\x09\0\0\0\0\0\0\0\0\0\0\0\0"s, "\x09\0\0\0\xf0\0\0\0\0\0\0\0\0"s}) {
    FrameReader reader;
    reader.take(bytes);
    cr_expect(!reader.next());
  }
}

Test(agents, are_given_words_that_no_shell_changes) {
  TreeSettings settings;
  settings.agent = *agent_words("ssh");
  cr_assert(find_program_there("/opt/rlx-1.0", settings).has_value());
  const auto command = agent_command(settings, {1, "node1", "me", 2222});
  const std::vector<std::string> wanted = {
      "ssh",
      "-o",
      "BatchMode=yes",
      "-o",
      "ConnectTimeout=10",
      "-x",
      "-T",
      "-p",
      "2222",
      "me@node1",
      "exec /bin/sh -c 'LD_LIBRARY_PATH=/opt/rlx-1.0/lib exec /opt/rlx-1.0/bin/rlxrun --daemon'"};
  cr_expect(command == wanted);
  cr_expect(*agent_words(" sh  -c 'a b' ") == (std::vector<std::string>{"sh", "-c", "a b"}));
  cr_expect(!agent_words("sh -c 'a"));
  for (const char* bad : {"/opt/a b", "/opt/$HOME", "/opt/'", "/opt/\n", "/opt/é"})
    cr_expect(!find_program_there(bad, settings), "%s", bad);
}
