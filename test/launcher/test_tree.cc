// SPDX-License-Identifier: MIT OR Apache-2.0
// Jobs on several hosts behave as on one.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "test/launcher/fake_hosts.h"
#include "test/launcher/launch.h"

using namespace rlx::test;

Test(tree, runs_ranks_on_every_host_at_any_depth, .timeout = 120) {
  const FakeHosts hosts;
  const struct {
    int n;
    const char* more;
  } table[] = {{1, ""}, {2, ""}, {3, "--tree-radix 1"}, {8, "--tree-radix 2"}};
  for (const auto& row : table) {
    const auto result = rlxrun_sh(hosts.options(row.n) + " " + row.more,
                                  "echo $RANK $WORLD_SIZE $RLX_NODE_RANK $RLX_NNODES $LOCAL_RANK");
    std::multiset<std::string> wanted;
    for (int i = 0; i < row.n; ++i) wanted.insert(fmt::format("{} {} {} {} 0", i, row.n, i, row.n));
    cr_expect_eq(result.code, 0, "%s", result.text().c_str());
    cr_expect(lines_of(result.out) == wanted && result.err.empty(), "%s", result.text().c_str());
  }
  // This host among them has no daemon.
  const auto mixed = rlxrun_sh(
      fmt::format("--host h0:1,localhost:1 --launch-agent {} --tag-output=host", hosts.agent()),
      "echo $RLX_NODE_RANK");
  cr_expect(lines_of(mixed.out) == (std::multiset<std::string>{"[0@h0] 0", "[1@localhost] 1"}),
            "%s", mixed.text().c_str());
}

Test(tree, ends_with_the_code_of_the_first_failing_rank_wherever_it_is, .timeout = 120) {
  const FakeHosts hosts;
  const TempDir dir;
  std::ofstream(dir / "plain") << "#!/bin/sh\n";
  const struct {
    std::vector<std::string> program;
    int code;
    const char* message;
  } table[] = {
      {{"true"}, 0, ""},
      {{"sh", "-c", "test $RANK = 2 && exit 3; exec sleep 100"}, 3, "rank 2 (pid "},
      {{"sh", "-c", "test $RANK = 1 && exit 255; exec sleep 100"}, 255, "on h1) exited"},
      {{"sh", "-c", "test $RANK = 2 && kill -SEGV $$; exec sleep 100"}, 139, "on h2) was killed"},
      {{"sh", "-c", "test $RANK = 0 && kill -KILL $$; exec sleep 100"}, 137, "signal 9 (Killed)"},
      {{"no-such-program"}, 127, "command not found in PATH"},
      {{dir / "plain"}, 126, "chmod +x"},
      {{dir.path()}, 126, "is a directory"},
      {{"--timeout", "0.3", "sleep", "100"}, 124, "did not end within"},
      {{"--wdir", "/no/such/dir", "true"}, 1, ": directory /no/such/dir: No such file"},
      {{"-n", "1", "sleep", "100", ":", "-n", "2", "sh", "-c", "exit $((RANK == 1))"},
       1,
       "rank 1 (pid "},
  };
  for (const auto& row : table) {
    auto words = cut(hosts.options(3) + " --tree-radix 1 ");
    words.insert(words.end(), row.program.begin(), row.program.end());
    const auto result = rlxrun(words);
    cr_expect_eq(result.code, row.code, "%s: %s", row.program.back().c_str(),
                 result.text().c_str());
    cr_expect(holds(result.err, row.message), "%s: %s", row.message, result.text().c_str());
    if (row.code != 0 && row.code != 124)
      cr_expect_eq(lines_of(result.err).size(), 1u, "%s", result.text().c_str());
  }
}

Test(tree, changes_no_argument_and_no_variable_on_the_way, .timeout = 60) {
  const FakeHosts hosts;
  const std::string nasty = "a b  'c\"d' $HOME ${X} `id` \\ * ? ~ ! # & ; | < > ( ) { } é \t\n\x01";
  const CommandOptions options{.environment = {"NASTY=" + nasty,
                                               "LARGE=" + std::string(120000, 'x'),
                                               "EMPTY=", "BASH_FUNC_f%%=() { echo hi; }",
                                               "MORE=" + std::string(80000, '\n')}};
  const std::vector<std::string> program = {"sh",
                                            "-c",
                                            "{ printf '%s\\0' \"$@\"; env -0 | grep -z "
                                            "'^NASTY=\\|^LARGE=\\|^EMPTY=\\|^BASH_FUNC\\|^MORE=' | "
                                            "sort -z; } | sha256sum; pwd",
                                            "sh",
                                            nasty,
                                            "",
                                            "-n",
                                            "a:b",
                                            std::string(100000, '"')};
  const auto run_with = [&](const std::string& words) {
    auto all = cut(words);
    all.insert(all.end(), program.begin(), program.end());
    return rlxrun(all, options);
  };
  const auto here = run_with("-n 1");
  const auto there = run_with(hosts.options(1));
  cr_expect_eq(there.code, 0, "%s", there.text().substr(0, 1000).c_str());
  cr_expect_gt(here.out.size(), 64u);
  expect_same(there.out, here.out);
}

Test(tree, gives_standard_input_to_ranks_of_other_hosts, .timeout = 60) {
  const FakeHosts hosts;
  std::string input;
  for (int i = 0; i < 60000; ++i) input += fmt::format("line {}\n", i);
  const CommandOptions options{.input = input};
  const auto one = rlxrun_sh(hosts.options(3) + " --tree-radix 1 --stdin 2",
                             "test $RANK = 2 && exec cat; read x || echo end", options);
  cr_expect(one.out == "end\nend\n" + input || lines_of(one.out).size() == 60002, "%zu",
            one.out.size());
  const auto all = rlxrun_sh(hosts.options(2) + " --stdin all", "cksum", options);
  const auto lines = lines_of(all.out);
  cr_expect(lines.size() == 2 && *lines.begin() == *lines.rbegin(), "%s", all.text().c_str());
  cr_expect_eq(rlxrun_sh(hosts.options(2), "exec true", options).code, 0);  // nobody reads it
}

Test(tree, passes_signals_on_and_gives_ranks_their_grace, .timeout = 60) {
  const FakeHosts hosts;
  const Mark mark;
  Background job(
      with_sh(hosts.options(3) + " --tree-radix 1 --term-grace 20",
              "trap 'echo one' USR1; trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep "
              "0.05; done"),
      mark);
  for (int i = 0; i < 3; ++i) expect_same(job.line(), "ready", job.err());
  job.signal(SIGUSR1);
  for (int i = 0; i < 3; ++i) expect_same(job.line(), "one");
  job.signal(SIGTERM);
  for (int i = 0; i < 3; ++i) expect_same(job.line(), "saved");
  cr_expect_eq(job.wait(), 143);
  cr_expect(mark.gone_within(1000));
}

Test(tree, tells_who_waits_in_a_fence_when_time_is_up, .timeout = 60) {
  const FakeHosts hosts;
  const auto result =
      rlxrun(with_sh(hosts.options(2) + " --timeout 2",
                     "test $RANK = 1 && exec sleep 100; exec " + built("test/coll/api_check")));
  cr_expect_eq(result.code, 124, "%s", result.text().c_str());
  const auto said = [&](const char* state) { return count(result.err, state); };
  cr_expect(said("on h0): sleeping, in a fence with the ranks of other hosts\n") == 1 &&
                said("on h1): sleeping, has not called init\n") == 1,
            "%s", result.text().c_str());
}

Test(tree, keeps_lines_whole_and_its_memory_small, .timeout = 120) {
  const FakeHosts hosts;
  const Mark mark;
  Background job(with_sh(hosts.options(2), "yes 0123456789abcdef | head -c 34000000"), mark);
  // Nobody reads for a while: windows hold the ranks back.
  cr_expect(eventually([&] { return mark.processes().size() >= 6; }, 10000));
  std::size_t n_lines = 0;
  for (std::string line; !(line = job.line()).empty(); ++n_lines)
    if (line != "0123456789abcdef") cr_assert(false, "%s", line.c_str());
  cr_expect_eq(n_lines, 4000000u);
  cr_expect_eq(job.wait(), 0);
}

Test(tree, is_planned_by_what_its_hosts_are_like, .timeout = 60) {
  const FakeHosts hosts;
  const auto bare = rlxrun(cut(
      fmt::format("--host h0,h1 --launch-agent {} --display alloc --dry-run true", hosts.agent())));
  cr_expect_eq(bare.code, 0, "%s", bare.text().c_str());
  cr_expect(holds(bare.out, "h0: ") && holds(bare.out, "h1: ") && holds(bare.out, "cores we may"),
            "%s", bare.text().c_str());
  const auto many = rlxrun(cut(hosts.options(2) + " -n 3 true"));
  cr_expect_neq(many.code, 0);
  cr_expect(holds(many.err, "oversubscribe"), "%s", many.text().c_str());
}
