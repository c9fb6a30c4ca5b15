// SPDX-License-Identifier: MIT OR Apache-2.0
// Looking at a job from outside (rlxrun --status, debuggers), and going on after a failure.
#include <criterion/criterion.h>

#include <csignal>
#include <cstdlib>

#include "test/launcher/launch.h"

using namespace rlx::test;

Test(status, lists_the_ranks_of_a_running_job_and_nothing_of_one_that_ended, .timeout = 60) {
  const Mark mark;
  const TempDir dir;
  setenv("RLX_TMPDIR", dir.path().c_str(), 1);  // a test is a process of its own
  Background job({"-n", "2", "sh", "-c", "echo $$; exec sleep 100"}, mark);
  const std::string pids[] = {job.line(), job.line()};
  const auto seen = rlxrun({"--status"});
  cr_expect_eq(seen.code, 0, "%s", seen.text().c_str());
  for (const auto& pid : pids)
    cr_expect(holds(seen.out, pid + "  running"), "%s", seen.out.c_str());
  cr_expect(holds(seen.out, "exec sleep 100"), "%s", seen.out.c_str());
  const auto json = rlxrun({"--status", "--json"});
  cr_expect(holds(json.out, "\"state\": \"running\"") && holds(json.out, "\"pid\": " + pids[0]),
            "%s", json.text().c_str());
  job.signal(SIGSTOP);
  const auto stopped = rlxrun({"--status"});
  cr_expect(!holds(stopped.out, pids[0]) && holds(stopped.err, dir.path()), "%s",
            stopped.text().c_str());
  job.signal(SIGCONT);
  job.signal(SIGTERM);
  cr_expect_eq(job.wait(), 143);
  const auto after = rlxrun({"--status"});
  cr_expect(after.code == 0 && !holds(after.out, pids[0]) && !holds(after.err, dir.path()), "%s",
            after.text().c_str());
}

Test(debuggers, find_all_ranks_in_the_table_of_processes, .timeout = 120) {
  const auto result =
      run({"gdb",
           "-nx",
           "-batch",
           "-ex",
           "break MPIR_Breakpoint",
           "-ex",
           "run",
           "-ex",
           "printf \"table %d %d %s %s\\n\", MPIR_debug_state, MPIR_proctable_size, "
           "MPIR_proctable[0].executable_name, MPIR_proctable[1].executable_name",
           "-ex",
           "printf \"pid %d\\n\", MPIR_proctable[1].pid",
           "-ex",
           "delete",
           "-ex",
           "continue",
           "--args",
           built("rlxrun"),
           "-n",
           "1",
           "true",
           ":",
           "-n",
           "1",
           "sh",
           "-c",
           "echo I am $$"});
  cr_assert_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect(holds(result.out, "table 1 2 true sh"), "%s", result.text().c_str());
  const auto at = result.out.find("I am ");
  cr_assert_neq(at, std::string::npos, "%s", result.text().c_str());
  const std::string pid = result.out.substr(at + 5, result.out.find('\n', at) - at - 5);
  cr_expect(holds(result.out, "pid " + pid + "\n"), "%s", result.text().c_str());
}

Test(restarts, start_the_whole_job_again_until_it_ends_well_or_too_often, .timeout = 120) {
  const struct {
    const char* words;
    const char* script;
    int code;
    int attempts;  // of rank 0
  } table[] = {
      {"-n 2 --max-restarts 3", "echo at $RLX_RESTART_COUNT; test $RLX_RESTART_COUNT = 2 || exit 7",
       0, 3},
      {"-n 1 --max-restarts 1", "echo at $TORCHELASTIC_RESTART_COUNT; kill -9 $$", 137, 2},
      {"-n 1", "echo at $RLX_RESTART_COUNT; exit 3", 3, 1},
      {"-n 1 --max-restarts 2", "echo at $RLX_RESTART_COUNT; kill -TERM $PPID; sleep 9", 143, 1},
      {"-n 1 --max-restarts 2 --timeout 0.3", "echo at 0; exec sleep 100", 124, 1},
  };
  for (const auto& row : table) {
    const auto result = rlxrun_sh(row.words, row.script);
    cr_expect_eq(result.code, row.code, "%s: %s", row.script, result.text().c_str());
    for (int i = 0; i < row.attempts; ++i)
      cr_expect(holds(result.out, "at " + std::to_string(i)), "%s", result.text().c_str());
    cr_expect(!holds(result.out, "at " + std::to_string(row.attempts)), "%s",
              result.text().c_str());
  }
  const auto none = rlxrun(cut("--max-restarts 3 no-such-program"));
  cr_expect(none.code == 127 && count(none.err, "no-such-program") == 1, "%s", none.text().c_str());
}

Test(failures, leave_the_others_alone_when_asked, .timeout = 60) {
  const auto result =
      rlxrun_sh("-n 3 --on-failure notify",
                "test $RANK = 1 && exit 5; sleep 0.2; echo rank $RANK went on; exit 0");
  cr_expect_eq(result.code, 5, "%s", result.text().c_str());
  cr_expect_eq(count(result.out, "went on"), 2, "%s", result.text().c_str());
  cr_expect(holds(result.err, "rank 1 (pid "), "%s", result.text().c_str());
  cr_expect_eq(rlxrun(cut("--on-failure shrug true")).code, 2);
}

Test(time_limits, show_what_each_rank_was_doing, .timeout = 120) {
  const auto result = rlxrun(cut("--timeout 0.3 --stacks -n 1 sleep 100 : -n 1 sleep 99"));
  cr_expect_eq(result.code, 124, "%s", result.text().c_str());
  cr_expect(holds(result.err, "did not end within 0.3 s"), "%s", result.text().c_str());
  cr_expect(holds(result.err, "rank 0 (pid ") && holds(result.err, "rank 1 (pid "), "%s",
            result.text().c_str());
  cr_expect(count(result.err, "  #0 ") == 2 && holds(result.err, "sleep"), "%s",
            result.text().c_str());
}

Test(time_limits, show_of_which_job_a_spawned_rank_is, .timeout = 60) {
  const auto result =
      rlxrun({"--timeout", "3", "--oversubscribe", "-n", "1", built("test/pmix_glue/rank"),
              "spawn_on", "any", "1", "0", "sleep 100"});
  cr_expect(result.code == 124 && holds(result.err, "rank 0 of spawned job 1 (pid "), "%s",
            result.text().c_str());
}

Test(time_limits, show_who_waits_in_a_barrier_of_pmi1, .timeout = 60) {
  const auto result =
      rlxrun({"--timeout", "1", "--pmi1", "--oversubscribe", "-n", "3", "bash", "-c",
              "ask() { echo \"$1\" >&$PMI_FD; read -r answer <&$PMI_FD; }; "
              "ask 'cmd=init pmi_version=1 pmi_subversion=1'; "
              "test $RANK = 2 || ask cmd=barrier_in; exec sleep 100"});
  cr_expect_eq(result.code, 124, "%s", result.text().c_str());
  for (const char* line : {"rank 0 (", "rank 1 (", "rank 2 ("})
    cr_expect_eq(count(result.err, line), 1, "%s", result.text().c_str());
  cr_expect(count(result.err, ", in a barrier\n") == 2 && count(result.err, ", initialised\n") == 1,
            "%s", result.text().c_str());
}

Test(progress, is_shown_in_few_lines, .timeout = 60) {
  const auto result = rlxrun(cut("--show-progress --oversubscribe -n 30 true"));
  cr_expect(holds(result.err, "30 of 30 ranks started"), "%s", result.text().c_str());
  cr_expect_leq(count(result.err, "\n"), 11, "%s", result.text().c_str());
}
