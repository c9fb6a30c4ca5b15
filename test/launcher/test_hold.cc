// SPDX-License-Identifier: MIT OR Apache-2.0
// Ranks that wait in their init until debuggers have been attached to them (rlxrun --stop-in-init).
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>

#include "test/launcher/fake_hosts.h"
#include "test/launcher/launch.h"

using namespace rlx::test;

namespace {

// A job of a program that uses PMIx, whose ranks say their pids first.
struct Held {
  explicit Held(const std::string& words, const std::string& before = "true", int n = 2)
      : job(with_sh("--stop-in-init " + words,
                    fmt::format("echo $$; {}; exec {}", before, built("test/coll/api_check"))),
            mark) {
    for (int i = 0; i < n; ++i) pids.push_back(job.line());
  }
  bool has_said(const std::string& text) const {
    return eventually([&] { return holds(job.err(), text); }, 20000);
  }
  Mark mark;
  Background job;
  std::vector<std::string> pids;
};

// Those that --status calls held.
int n_held() { return count(rlxrun({"--status"}).out, "  waits in init\n"); }

struct OwnDirectory {  // for --status
  OwnDirectory() { setenv("RLX_TMPDIR", dir.path().c_str(), 1); }
  TempDir dir;
};

constexpr const char* kHere = "-n 2 --oversubscribe";

}  // namespace

Test(held, ranks_run_on_when_rlxrun_is_continued, .timeout = 120) {
  const OwnDirectory directory;
  const FakeHosts hosts;
  for (const auto& words : {std::string(kHere), hosts.options(2) + " --tree-radix 1"}) {
    Held held(words);
    cr_assert(held.has_said("2 of 2 ranks wait in init"), "%s", held.job.err().c_str());
    cr_expect(holds(held.job.err(), fmt::format("kill -CONT {} ", held.job.pid())), "%s",
              held.job.err().c_str());
    const auto status = rlxrun({"--status"});
    for (const auto& pid : held.pids)
      cr_expect(holds(status.out, pid + "  waits in init"), "%s", status.text().c_str());
    held.job.signal(SIGCONT);
    expect_same(held.job.line(), "api_check ok 2", held.job.err());
    cr_expect_eq(held.job.wait(), 0, "%s", held.job.err().c_str());
    cr_expect_eq(count(held.job.err(), "wait in init"), 1, "%s", held.job.err().c_str());
  }
}

Test(held, ranks_that_come_when_the_others_run_do_not_wait, .timeout = 120) {
  const OwnDirectory directory;
  const TempDir dir;
  const FakeHosts hosts;
  for (const auto& words :
       {std::string("--oversubscribe"), hosts.options(2) + " --oversubscribe"}) {
    const std::string gate = dir / std::to_string(words.size());
    Held held(words + " -n 4",
              fmt::format("test $RANK = 0 || until test -e {}; do sleep 0.02; done", gate), 4);
    cr_assert(held.has_said("1 of 4 ranks wait"), "%s", held.job.err().c_str());
    cr_expect_eq(n_held(), 1);
    held.job.signal(SIGCONT);
    cr_assert(eventually([] { return n_held() == 0; }, 10000));
    std::ofstream(gate) << "open";
    expect_same(held.job.line(), "api_check ok 4", held.job.err());
    cr_expect_eq(held.job.wait(), 0, "%s", held.job.err().c_str());
  }
}

Test(held, ranks_are_stopped_and_continued_as_others, .timeout = 60) {
  Held held(kHere);
  cr_assert(held.has_said("2 of 2 ranks wait"), "%s", held.job.err().c_str());
  held.job.signal(SIGTSTP);
  const auto is_stopped = [&] {
    std::string line;
    std::getline(std::ifstream(fmt::format("/proc/{}/stat", held.pids[1])), line);
    return holds(line, ") T ");
  };
  cr_assert(eventually(is_stopped, 10000));
  held.job.signal(SIGCONT);
  cr_expect_eq(held.job.wait(), 0, "%s", held.job.err().c_str());
}

Test(held, jobs_end_in_the_ways_of_others, .timeout = 120) {
  const FakeHosts hosts;
  for (const auto& words : {std::string(kHere), hosts.options(2)}) {
    {
      Held held(words);
      cr_assert(held.has_said("2 of 2 ranks wait"), "%s", held.job.err().c_str());
      kill(std::stoi(held.pids[1]), SIGKILL);
      cr_expect_eq(held.job.wait(), 137);
      cr_expect(holds(held.job.err(), "(pid " + held.pids[1]), "%s", held.job.err().c_str());
      cr_expect(held.mark.gone_within(1000));
    }
    {
      Held held(words);
      cr_assert(held.has_said("2 of 2 ranks wait"), "%s", held.job.err().c_str());
      held.job.signal(SIGTERM);
      cr_expect_eq(held.job.wait(), 143);
      cr_expect(held.mark.gone_within(1000));
    }
    Held held(words + " --timeout 2");
    cr_expect_eq(held.job.wait(), 124);
    cr_expect_eq(count(held.job.err(), ", waits in init to be let go\n"), 2, "%s",
                 held.job.err().c_str());
  }
}

Test(held, ranks_are_only_those_that_use_pmix, .timeout = 60) {
  const auto result = rlxrun_sh("--stop-in-init -n 2 --oversubscribe", "echo $RANK");
  cr_expect(result.code == 0 && count(result.out, "\n") == 2 && result.err.empty(), "%s",
            result.text().c_str());
}

Test(held, ranks_run_on_when_a_debugger_has_seen_the_table_of_processes, .timeout = 120) {
  const auto words = cut("gdb -nx -batch -ex");
  std::vector<std::string> command(words);
  for (const char* line :
       {"break MPIR_Breakpoint", "run", "set var MPIR_being_debugged = 1", "delete", "continue"}) {
    if (command.back() != "-ex") command.emplace_back("-ex");
    command.emplace_back(line);
  }
  for (const auto& word :
       cut("--args " + built("rlxrun") + " --stop-in-init --timeout 60 -n 2 --oversubscribe " +
           built("test/coll/api_check")))
    command.push_back(word);
  const auto result = run(command);
  cr_expect(holds(result.out, "api_check ok 2") && !holds(result.err, "wait in init"), "%s",
            result.text().c_str());
}
