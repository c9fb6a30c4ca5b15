// SPDX-License-Identifier: MIT OR Apache-2.0
// Real jobs under rlxrun: the C interface with every number of ranks and fabric, and what happens
// when a rank fails.
#include <criterion/criterion.h>
#include <dirent.h>

#include <cstdlib>
#include <string>

#include "base/clock.h"
#include "test/support/command.h"

using namespace rlx;
using namespace rlx::test;

namespace {

CommandResult job(int np, const std::vector<std::string>& program, CommandOptions options = {}) {
  std::vector<std::string> argv = {built("rlxrun"), "-q", "-np", std::to_string(np)};
  argv.insert(argv.end(), program.begin(), program.end());
  return run(argv, options);
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// rank 1 fails in `phase`; the job's result and how long it took.
CommandResult failing(const std::string& phase, const std::string& how,
                      std::vector<std::string> environment = {}, double* seconds = nullptr) {
  const auto start = now_ns();
  auto result =
      job(4, {built("test/coll/fail_check"), phase, how}, {.environment = std::move(environment)});
  if (seconds) *seconds = static_cast<double>(now_ns() - start) * 1e-9;
  return result;
}

}  // namespace

Test(launch, every_call_is_right_for_any_number_of_ranks_in_shared_memory, .timeout = 300) {
  for (const int np : {1, 2, 3, 4, 5, 8}) {
    const auto result = job(np, {built("test/coll/api_check")});
    cr_expect_eq(result.code, 0, "np=%d: %s", np, result.text().c_str());
    cr_expect(has(result.out, "api_check ok " + std::to_string(np)));
  }
}

Test(launch, every_call_is_right_over_tcp_alone, .timeout = 300) {
  for (const int np : {2, 3, 5}) {
    const auto result =
        job(np, {built("test/coll/api_check")}, {.environment = {"RLX_FABRICS=tcp"}});
    cr_expect_eq(result.code, 0, "np=%d: %s", np, result.text().c_str());
  }
}

Test(launch, a_program_without_a_launcher_is_a_world_of_one) {
  const auto result = run({built("test/coll/api_check")});
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect(has(result.out, "api_check ok 1"));
}

Test(launch, refuses_wrong_settings_also_of_wires_that_are_not_needed, .timeout = 60) {
  const struct {
    const char *setting, *wanted;
  } table[] = {{"RLX_TCP_PORT_RANGE=abc", "RLX_TCP_PORT_RANGE"},
               {"RLX_NET=nonet0", "RLX_NET"},
               {"RLX_TCP_CONGESTION=bogus", "RLX_TCP_CONGESTION"},
               {"RLX_FABRICS=carrier-pigeon", "but self, shm, tcp"}};
  for (const auto& row : table) {
    const auto result = job(2, {built("test/coll/api_check")}, {.environment = {row.setting}});
    cr_expect(result.code != 0 && holds(result.err, row.wanted), "%s: %s", row.setting,
              result.text().c_str());
  }
  const auto typo = job(2, {built("test/coll/api_check")}, {.environment = {"RLX_TIMOUT_MS=3"}});
  cr_expect(typo.code == 0 && count(typo.err, "RLX_TIMEOUT_MS") == 2,  // rlxrun's own, and rank 0's
            "%s", typo.text().c_str());
}

Test(launch, runs_under_open_mpis_mpirun, .timeout = 120) {
  if (std::system("command -v mpirun.openmpi >/dev/null") != 0)
    cr_skip_test("mpirun.openmpi is not installed");
  const auto result =
      run({"mpirun.openmpi", "--oversubscribe", "-np", "3", built("test/coll/api_check")},
          {.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect(has(result.out, "api_check ok 3"), "%s", result.text().c_str());
}

Test(launch, a_rank_that_dies_in_any_phase_ends_the_job_and_is_named, .timeout = 300) {
  const struct {
    const char *phase, *how;
    int code;
    const char* words;
  } table[] = {
      {"before_init", "kill", 137, "rank 1"},
      {"after_init", "kill", 137, "rank 1"},
      {"in_collective", "kill", 137, "rank 1"},
      {"in_recv", "kill", 137, "rank 1"},
      {"in_finalize", "kill", 137, "rank 1"},
      {"before_init", "exit3", 3, "rank 1"},
      {"in_collective", "exit3", 3, "rank 1"},
      {"in_collective", "exit0", 1, "without finaliz"},
      {"in_finalize", "exit0", 1, "without finaliz"},
      {"in_recv", "abort", 7, "had enough"},
      {"before_init", "abort", 7, "abort before rlx_init: the victim had enough"},
      {"after_finalize", "abort", 7, "abort after rlx_finalize: the victim had enough"},
  };
  for (const auto& row : table) {
    double seconds = 0;
    const auto result = failing(row.phase, row.how, {}, &seconds);
    cr_expect_eq(result.code, row.code, "%s %s: %s", row.phase, row.how, result.text().c_str());
    cr_expect(has(result.err, row.words), "%s %s: %s", row.phase, row.how, result.text().c_str());
    // Never hangs: far below the library's deadline.
    cr_expect_lt(seconds, 20, "%s %s: %f s", row.phase, row.how, seconds);
  }
}

// Nobody comes further than init then, so that there is nothing to go on with.
Test(launch, a_rank_that_never_joins_ends_the_job_whatever_is_to_be_done_on_failure,
     .timeout = 60) {
  for (const std::string how : {"notify", "continue"}) {
    const auto result = run({built("rlxrun"), "-q", "--oversubscribe", "-n", "3", "--on-failure",
                             how, built("test/coll/fail_check"), "before_init", "exit0"},
                            {.timeout_ms = 20000});
    cr_expect(result.code == 1 && has(result.err, "rank 1"), "%s", result.text().c_str());
  }
}

// The launcher does not end them here: they must see it themselves.
Test(launch, who_looks_for_a_message_of_a_dead_rank_is_told, .timeout = 120) {
  for (const std::string phase : {"in_recv", "in_probe", "in_probe_any", "in_iprobe"})
    for (const std::string fabrics : {"RLX_FABRICS=self,shm", "RLX_FABRICS=self,tcp"}) {
      const auto result = run({built("rlxrun"), "--oversubscribe", "-n", "3", "--on-failure",
                               "continue", built("test/coll/fail_check"), phase, "kill"},
                              {.environment = {fabrics}, .timeout_ms = 20000});
      cr_expect_eq(result.code, 137, "%s %s: %s", phase.c_str(), fabrics.c_str(),
                   result.text().c_str());
      cr_expect(has(result.err, "rank 0 saw peer") && has(result.err, "rank 2 saw peer"),
                "%s %s: %s", phase.c_str(), fabrics.c_str(), result.text().c_str());
    }
}

Test(launch, a_deadline_names_the_rank_that_stopped, .timeout = 120) {
  for (const char* phase : {"in_collective", "in_recv"})
    for (const char* fabrics : {"RLX_FABRICS=self,shm", "RLX_FABRICS=self,tcp"}) {
      const auto result = failing(phase, "stop", {"RLX_TIMEOUT_MS=1500", fabrics});
      // 16: a rank that saw the first one leave after its deadline.
      cr_expect(result.code == 10 + 5 || result.code == 10 + 6, "%s %s: %s", phase, fabrics,
                result.text().c_str());
      cr_expect(has(result.err, "saw timeout") && has(result.err, "rank 1"), "%s %s: %s", phase,
                fabrics, result.text().c_str());
    }
}

Test(launch, a_mismatched_collective_is_named_on_all_ranks, .timeout = 120) {
  for (const char* fabrics : {"RLX_FABRICS=self,shm", "RLX_FABRICS=self,tcp"}) {
    // The launcher ends the job at the first bad exit; with a note of each rank's words before
    // that.
    const auto result = failing("in_collective", "mismatch", {fabrics, "RLX_TIMEOUT_MS=20000"});
    cr_expect_eq(result.code, 10 + 7, "%s: %s", fabrics, result.text().c_str());
    cr_expect(
        has(result.err, "broadcast") && has(result.err, "all_reduce") && has(result.err, "rank 1"),
        "%s: %s", fabrics, result.text().c_str());
  }
}
