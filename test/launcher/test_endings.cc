// SPDX-License-Identifier: MIT OR Apache-2.0
// However a job ends, nothing is left: no process, no file.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "test/launcher/launch.h"

using namespace rlx::test;

namespace {

constexpr int kSoon = 3000;  // generous: the machine may be busy

// Runs a job in the background until each of its n ranks has said "ready".
struct Ready {
  Ready(int n, const std::string& words, const std::string& script)
      : job(with_sh(fmt::format("-n {} --oversubscribe {}", n, words), script), mark) {
    for (int i = 0; i < n; ++i) expect_same(job.line(), "ready", job.err());
  }
  Mark mark;
  Background job;
};

}  // namespace

Test(endings, of_a_failed_rank_take_everything_along, .timeout = 60) {
  const char* const left[] = {"sleep 100 & setsid sleep 100 & exec sleep 100",
                              "trap '' TERM; (trap '' TERM; setsid sleep 100) & sleep 100",
                              "env -i setsid sleep 100 & exec sleep 100", "kill -STOP $$"};
  for (const char* script : left) {
    const Mark mark;
    Background job(
        with_sh("-n 3 --oversubscribe",
                fmt::format("test $RANK = 1 && {{ read l </dev/null; exit 7; }}; {}", script)),
        mark);
    const auto before = rlx::now_ns();
    cr_expect_eq(job.wait(), 7, "%s: %s", script, job.err().c_str());
    cr_expect_lt((rlx::now_ns() - before) / 1000000, kSoon, "%s", script);
    cr_expect(mark.processes().empty(), "%s left a process", script);
    cr_expect(job.err().find("rank 1 (pid ") != std::string::npos, "%s", job.err().c_str());
  }
}

Test(endings, clean_up_what_ranks_left_in_the_background, .timeout = 60) {
  for (const char* script : {"sleep 100 & true", "setsid sleep 100 >/dev/null 2>&1 & true",
                             "trap '' TERM; sleep 100 & true"}) {
    const Mark mark;
    Background job(with_sh("-n 2 --oversubscribe", script), mark);
    cr_expect_eq(job.wait(), 0, "%s: %s", script, job.err().c_str());
    cr_expect(mark.processes().empty(), "%s left a process", script);
  }
}

Test(endings, by_sigkill_of_the_launcher_leave_no_process_and_no_file, .timeout = 60) {
  const TempDir dir;
  const auto shm_before = scratch_in("/dev/shm");
  {
    Ready ready(2, "-x TMPDIR=" + dir.path(),
                "sleep 100 & setsid sleep 100 & echo ready; exec sleep 100");
    ready.job.signal(SIGKILL);
    cr_expect_eq(ready.job.wait(), 137);
    cr_expect(ready.mark.gone_within(kSoon), "%zu processes are left",
              ready.mark.processes().size());
  }
  const auto added = [&] {
    auto now = scratch_in("/dev/shm");
    std::erase_if(now, [&](const auto& name) {
      return std::find(shm_before.begin(), shm_before.end(), name) != shm_before.end();
    });
    return now.size();
  };
  cr_expect(eventually([&] { return added() == 0; }, kSoon));
}

Test(endings, that_nobody_survived_are_cleaned_up_by_the_next_launch, .timeout = 60) {
  const TempDir dir;
  const auto in_dir = [&](const std::string& name) { return std::filesystem::exists(dir / name); };
  std::filesystem::create_directories(dir / "rlx.stale1/pmix");
  std::filesystem::create_directories(dir / "rlx-not-ours");
  const CommandOptions options{.environment = {"TMPDIR=" + dir.path()}};
  cr_expect_eq(rlxrun(cut("-n 1 true"), options).code, 0);
  cr_expect(!in_dir("rlx.stale1"));
  cr_expect(in_dir("rlx-not-ours"));
  cr_expect(scratch_in(dir.path()).empty());
  // A living launch keeps its own.
  const auto nested = rlxrun_sh(
      "-n 1", fmt::format("ls {}; {} -q -n 1 true; ls {}", dir.path(), built("rlxrun"), dir.path()),
      options);
  cr_expect_eq(std::count(nested.out.begin(), nested.out.end(), '.'), 2, "%s",
               nested.text().c_str());
}

Test(endings, by_signal_are_those_of_the_signal, .timeout = 60) {
  const struct {
    int signal_number, code;
  } table[] = {{SIGTERM, 143}, {SIGINT, 130}, {SIGHUP, 129}, {SIGQUIT, 131}};
  for (const auto& row : table) {
    Ready ready(2, "", "setsid sleep 100 & echo ready; exec sleep 100");
    ready.job.signal(row.signal_number);
    cr_expect_eq(ready.job.wait(), row.code, "%s", ready.job.err().c_str());
    cr_expect(ready.mark.processes().empty());
  }
}

Test(endings, give_ranks_the_grace_they_were_promised, .timeout = 60) {
  const std::string saves =
      "trap 'sleep 0.3; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
  Ready saving(2, "--term-grace 20", saves);
  saving.job.signal(SIGTERM);
  expect_same(saving.job.line(), "saved");
  expect_same(saving.job.line(), "saved");
  cr_expect_eq(saving.job.wait(), 143);
  const std::string deaf = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
  Ready refusing(2, "--term-grace 0.2", deaf);
  refusing.job.signal(SIGTERM);
  cr_expect_eq(refusing.job.wait(), 143);
  Ready impatient(2, "--term-grace 100", deaf);
  cr_expect(eventually(  // the second one kills; two at once may count as one
      [&] {
        impatient.job.signal(SIGINT);
        return impatient.job.has_ended();
      },
      kSoon));
  cr_expect_eq(impatient.job.wait(), 130);
  cr_expect(impatient.mark.processes().empty());
}

Test(endings, by_ctrl_c_begin_with_the_signal_that_was_chosen, .timeout = 60) {
  const std::string listens =
      "trap 'echo got INT; exit 0' INT; trap 'echo got TERM; exit 0' TERM; echo ready; "
      "while :; do sleep 0.05; done";
  for (const char* which : {"INT", "TERM"}) {
    Ready ready(1, std::string("--term-grace 20 --int-signal ") + which, listens);
    ready.job.signal(SIGINT);
    expect_same(ready.job.line(), std::string("got ") + which);
    cr_expect_eq(ready.job.wait(), 130);
  }
}

// A window that is closed, a connection that breaks.
Test(endings, by_a_terminal_that_goes_away_leave_nothing, .timeout = 60) {
  const Mark mark;
  int terminal = -1;
  const pid_t pid = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (pid == 0) {
    putenv(const_cast<char*>(mark.entry().c_str()));
    execl(built("rlxrun").c_str(), "rlxrun", "-q", "-n", "2", "--oversubscribe", "sh", "-c",
          "setsid sleep 100 & echo ready; exec sleep 100", nullptr);
    _exit(127);
  }
  std::string seen;
  for (char c; count(seen, "ready") < 2 && read(terminal, &c, 1) == 1;) seen += c;
  cr_expect_eq(count(seen, "ready"), 2, "%s", seen.c_str());
  close(terminal);
  int status = 0;
  cr_expect_eq(waitpid(pid, &status, 0), pid);
  cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP, "status %d", status);
  cr_expect(mark.gone_within(kSoon), "%zu processes are left", mark.processes().size());
}

Test(signals, are_passed_on_to_all_ranks, .timeout = 60) {
  Ready ready(2, "",
              "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo ready; while :; do sleep "
              "0.05; done");
  ready.job.signal(SIGUSR1);
  for (int i = 0; i < 2; ++i) expect_same(ready.job.line(), "one");
  ready.job.signal(SIGUSR2);
  for (int i = 0; i < 2; ++i) expect_same(ready.job.line(), "two");
  cr_expect_eq(ready.job.wait(), 0);
}

Test(signals, stop_and_continue_the_whole_job, .timeout = 60) {
  Ready ready(1, "", "trap 'echo end; exit 0' USR1; echo ready; while :; do sleep 0.05; done");
  const auto state = [](pid_t pid) {
    std::string line;
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::getline(file, line);
    const auto end = line.rfind(") ");
    return end == std::string::npos ? '?' : line[end + 2];
  };
  ready.job.signal(SIGTSTP);
  cr_expect(eventually([&] { return state(ready.job.pid()) == 'T'; }, kSoon));
  const auto stopped = [&] {
    const auto processes = ready.mark.processes();
    return std::count_if(processes.begin(), processes.end(),
                         [&](pid_t pid) { return state(pid) == 'T'; });
  };
  cr_expect(eventually([&] { return stopped() >= 2; }, kSoon));  // rlxrun and its rank
  ready.job.signal(SIGCONT);
  ready.job.signal(SIGUSR1);
  expect_same(ready.job.line(), "end");
  cr_expect_eq(ready.job.wait(), 0);
}
