// SPDX-License-Identifier: MIT OR Apache-2.0
// Hosts that cannot be reached, and hosts that are lost: who it was and why is said, and nothing is
// left.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>

#include "test/launcher/fake_hosts.h"
#include "test/launcher/launch.h"

using namespace rlx::test;

namespace {

constexpr int kSoon = 5000;

// The daemon of each of n ranks, which have begun with "echo $RANK $PPID".
std::vector<pid_t> daemons_of(Background& job, int n) {
  std::vector<pid_t> daemons(static_cast<std::size_t>(n));
  for (int i = 0; i < n; ++i) {
    std::size_t rank = 0;
    pid_t pid = 0;
    cr_assert_eq(sscanf(job.line().c_str(), "%zu %d", &rank, &pid), 2, "%s", job.err().c_str());
    daemons.at(rank) = pid;
  }
  return daemons;
}

}  // namespace

Test(tree_start, skips_what_noisy_shells_print, .timeout = 60) {
  const FakeHosts hosts("echo Welcome to the machine; printf 'no end of line'; echo error >&2");
  const auto result = rlxrun_sh(hosts.options(3) + " --tree-radix 1", "echo $RANK");
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect_eq(std::count(result.out.begin(), result.out.end(), '\n'), 3);
  cr_expect(result.err.empty(), "%s", result.err.c_str());
}

Test(tree_start, says_in_one_line_what_is_wrong_with_which_hosts, .timeout = 120) {
  const struct {
    const char* instead;
    const char* options;
    std::vector<const char*> parts;
    int lines;
  } table[] = {
      {"echo \"ssh: no route to $host\" >&2; exit 255",
       "",
       {"cannot start on h0, h1, h2: agent exited with code 255: ssh: no route to h"},
       1},
      {"kill -9 $$", "", {"h0, h1, h2: agent was killed by signal 9"}, 1},
      {"echo; echo 'rlxrun-daemon 99 7.7.7'; exec sleep 100",
       "",
       {"h0, h1, h2: its rlxrun is 7.7.7 (protocol 99), this is "},
       1},
      {"exec sleep 100",
       "--start-timeout 0.3",
       {"h0, h1, h2: no answer within 0.3 s (--start-timeout)"},
       1},
      {"echo; test $host = h1 && exit 3; exec sleep 100",
       "--start-timeout 0.5",
       {"cannot start on h1: agent exited with code 3 (tried ", "on h0, h2: no answer"},
       2},
      {"echo 'rlxrun-daemon 1'; cat /dev/zero",
       "",
       {"h0, h1, h2: its rlxrun is  (protocol 1), this is "},
       1},
      {"sh -c \"$*\" | sed -u 's/$/\\r/'", "", {"h0, h1, h2: its agent changes what passes"}, 1},
      {"cat /dev/zero", "", {"h0, h1, h2: what answers there is no daemon"}, 1},
      {"exec sh -c \"exec </dev/null; $*\"",
       "",
       {"h0, h1, h2: agent exited with code 1: rlxrun: standard input is no pipe from rlxrun"},
       1},
  };
  for (const auto& row : table) {
    const FakeHosts hosts("", row.instead);
    const Mark mark;
    Background job(cut(hosts.options(3) + " " + row.options + " true"), mark);
    cr_expect_eq(job.wait(), 1, "%s", row.instead);
    for (const char* part : row.parts)
      cr_expect(holds(job.err(), part), "%s: %s", part, job.err().c_str());
    const std::string err = job.err();
    cr_expect_eq(std::count(err.begin(), err.end(), '\n'), row.lines, "%s", err.c_str());
    cr_expect(mark.gone_within(kSoon), "%s", row.instead);
  }
  const FakeHosts deep("", "test $host = h1 && exit 9; exec sh -c \"$*\"");
  const auto result = rlxrun(cut(deep.options(3) + " --tree-radix 1 true"));
  cr_expect(holds(result.err, "cannot start on h1 (and so not on h2): agent exited with code 9"),
            "%s", result.text().c_str());
  const FakeHosts silent("", "test $host = h2 && exec sleep 100; exec sh -c \"$*\"");
  const auto late = rlxrun(cut(silent.options(6) + " --tree-radix 2 --start-timeout 3 true"));
  expect_same(late.err, "rlxrun: cannot start on h2: no answer within 3 s (--start-timeout)\n");
  const auto later = rlxrun(cut(silent.options(4) + " --tree-radix 1 --start-timeout 3 true"));
  expect_same(
      later.err,
      "rlxrun: cannot start on h2 (and so not on h3): no answer within 3 s (--start-timeout)\n");
}

Test(tree_start, names_all_hosts_that_cannot_run_the_program, .timeout = 60) {
  const FakeHosts hosts;
  const auto none = rlxrun(cut(hosts.options(10) + " --tree-radix 3 /no/such"));
  cr_expect_eq(none.code, 127);
  expect_same(
      none.err,
      "rlxrun: not started on h0, h1, h2, h3, h4, h5, h6, h7 and 2 more: /no/such: No such file "
      "or directory\n");
}

Test(tree_start, takes_of_the_time_limit, .timeout = 60) {
  const FakeHosts hosts("", "test $host = h1 && exec sleep 100; exec sh -c \"$*\"");
  const Mark mark;
  Background job(cut(hosts.options(2) + " --timeout 1 true"), mark);
  cr_expect_eq(job.wait(), 124);
  expect_same(job.err(),
              "rlxrun: the job did not end within 1 s (--timeout)\n"
              "rlxrun: cannot start on h1: no answer yet\n");
  cr_expect(mark.gone_within(kSoon));
}

Test(tree_start, can_be_interrupted, .timeout = 60) {
  const FakeHosts hosts("",
                        "echo started >&2; test $host = h1 && exec sleep 100; exec sh -c \"$*\"");
  const Mark mark;
  Background job(cut(hosts.options(2) + " true"), mark);
  cr_expect(eventually([&] { return mark.processes().size() >= 3; }, 10000));
  job.signal(SIGINT);
  cr_expect_eq(job.wait(), 130, "%s", job.err().c_str());
  cr_expect(mark.gone_within(kSoon));
}

Test(tree_loss, of_a_daemon_ends_the_job_everywhere_and_names_its_host, .timeout = 120) {
  for (const char* radix : {"1", "32"})
    for (const int victim : {0, 1, 2}) {
      const FakeHosts hosts;
      const Mark mark;
      Background job(with_sh(hosts.options(3) + " --tree-radix " + radix,
                             "sleep 100 & setsid sleep 100 & echo $RANK $PPID; exec sleep 100"),
                     mark);
      kill(daemons_of(job, 3)[static_cast<std::size_t>(victim)], SIGKILL);
      cr_expect_eq(job.wait(), 1, "%s", job.err().c_str());
      cr_expect(holds(job.err(), fmt::format("lost host h{}", victim)), "%s", job.err().c_str());
      cr_expect(holds(job.err(), "was killed by signal 9"), "%s", job.err().c_str());
      cr_expect(mark.gone_within(kSoon), "%d of %s", victim, radix);
    }
}

Test(tree_loss, of_the_head_ends_the_job_everywhere, .timeout = 60) {
  const FakeHosts hosts;
  const Mark mark;
  Background job(
      with_sh(hosts.options(3) + " --tree-radix 1",
              "trap '' TERM; sleep 100 & setsid sleep 100 & echo ready; while :; do sleep 1; done"),
      mark);
  for (int i = 0; i < 3; ++i) expect_same(job.line(), "ready", job.err());
  job.signal(SIGKILL);
  cr_expect_eq(job.wait(), 137);
  cr_expect(mark.gone_within(kSoon));
}

Test(tree_loss, of_a_host_that_falls_silent_is_noticed, .timeout = 60) {
  const FakeHosts hosts;
  const Mark mark;
  Background job(with_sh(hosts.options(2) + " -v --tree-radix 1 --heartbeat 0.1",
                         "echo $RANK $PPID; exec sleep 100"),
                 mark);
  kill(daemons_of(job, 2)[1], SIGSTOP);
  cr_expect_eq(job.wait(), 1, "%s", job.err().c_str());
  cr_expect(holds(job.err(), "host h1 has been silent for 0.3 s; after 0.6 s it is lost\n"), "%s",
            job.err().c_str());
  cr_expect(holds(job.err(), "lost host h1 with rank 1: ") && holds(job.err(), "silent for 0.6 s"),
            "%s", job.err().c_str());
  cr_expect(mark.gone_within(kSoon));
}

Test(tree_loss, is_not_suspected_without_a_heartbeat, .timeout = 60) {
  const FakeHosts hosts;
  const Mark mark;
  Background job(with_sh(hosts.options(2) + " --heartbeat 0",
                         "trap 'exit 0' USR1; echo $RANK $PPID; while :; do sleep 0.05; done"),
                 mark);
  const pid_t stopped = daemons_of(job, 2)[1];
  kill(stopped, SIGSTOP);
  for (int i = 0; i < 30; ++i) pause_10ms();
  kill(stopped, SIGCONT);
  job.signal(SIGUSR1);
  cr_expect_eq(job.wait(), 0, "%s", job.err().c_str());
}

// What an agent leaves behind may hold its pipe; so may a daemon that it started and did not wait
// for.
Test(tree_loss, is_what_became_of_the_daemon_not_of_its_agent, .timeout = 120) {
  const Mark mark;
  const FakeHosts held("", "sleep 100 & sh -c \"$*\"");
  Background lost(with_sh(held.options(2) + " --heartbeat 60", "echo $RANK $PPID; exec sleep 100"),
                  mark);
  kill(daemons_of(lost, 2)[1], SIGKILL);
  cr_expect_eq(lost.wait(), 1, "%s", lost.err().c_str());
  cr_expect(holds(lost.err(), "lost host h1 with rank 1: agent exited with code 137"), "%s",
            lost.err().c_str());

  const FakeHosts left("", "exec 3<&0; sh -c \"$*\" <&3 3<&- & exit 0");
  Background kept(with_sh(left.options(2),
                          "trap 'echo end; exit 0' USR1; echo up; while :; do sleep 0.05; done"),
                  mark);
  for (int i = 0; i < 2; ++i) expect_same(kept.line(), "up", kept.err());
  for (int i = 0; i < 400; ++i) pause_10ms();  // longer than an answer is waited for
  kept.signal(SIGUSR1);
  for (int i = 0; i < 2; ++i) expect_same(kept.line(), "end", kept.err());
  cr_expect_eq(kept.wait(), 0, "%s", kept.err().c_str());
}

// Its agent's end does not take it along: on a real host it is in another session, or on another
// machine.
Test(tree_loss, of_a_daemon_that_is_stopped_leaves_nothing_there, .timeout = 60) {
  const FakeHosts hosts("", "exec setsid -w sh -c \"$*\"");
  const Mark mark;
  Background job(
      with_sh(hosts.options(2) + " --heartbeat 0.1",
              "trap '' TERM; setsid sleep 100 & echo $RANK $PPID; while :; do sleep 1; done"),
      mark);
  kill(daemons_of(job, 2)[1], SIGSTOP);
  cr_expect_eq(job.wait(), 1, "%s", job.err().c_str());
  cr_expect(holds(job.err(), "lost host h1 with rank 1: ") && holds(job.err(), "silent for 0.6 s"),
            "%s", job.err().c_str());
  cr_expect(mark.gone_within(kSoon));
}

// Ctrl-Z stops the head, which then says nothing for as long as the user likes.
Test(tree_loss, is_not_what_a_stopped_head_is, .timeout = 60) {
  const FakeHosts hosts;
  const Mark mark;
  Background job(with_sh(hosts.options(1) + " --heartbeat 0.05",
                         "trap 'echo end; exit 0' USR1; echo ready; while :; do sleep 0.05; done"),
                 mark);
  expect_same(job.line(), "ready", job.err());
  job.signal(SIGTSTP);
  for (int i = 0; i < 60; ++i) pause_10ms();  // twelve heartbeats
  job.signal(SIGCONT);
  job.signal(SIGUSR1);
  expect_same(job.line(), "end", job.err());
  cr_expect_eq(job.wait(), 0, "%s", job.err().c_str());
}
