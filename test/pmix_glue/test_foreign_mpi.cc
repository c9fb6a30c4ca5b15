// SPDX-License-Identifier: MIT OR Apache-2.0
// Unmodified programs of other MPIs under rlxrun, and our client under their launchers.
#include <criterion/criterion.h>

#include <filesystem>
#include <optional>

#include "test/pmix_glue/foreign.h"
#include "test/support/command.h"

using namespace rlx::test;

namespace {

// One run of the program with 4 ranks.
struct Case {
  const char* mode;
  int code;
  const char* line;  // in the output, `n` times
  int n;
};

void expect(const Case& row, const std::string& program, const std::string& shm) {
  CommandOptions options;
  options.environment = {"OMPI_MCA_btl_vader_backing_directory=" + shm};
  const auto result =
      run({built("rlxrun"), "-np", "4", "--oversubscribe", program, row.mode}, options);
  cr_expect_eq(result.code, row.code, "%s: %s", row.mode, result.text().c_str());
  const std::string all = result.out + result.err;
  cr_expect_eq(count(all, row.line), row.n, "%s: %d times '%s' in %s", row.mode, row.n, row.line,
               result.text().c_str());
  if (std::string(row.mode) == "hello")
    for (const char* rank : {"rank 0 ", "rank 1 ", "rank 2 ", "rank 3 "})
      cr_expect_eq(count(result.out, rank), 1, "%s", result.text().c_str());
  cr_expect(std::filesystem::is_empty(shm), "%s left segments", row.mode);
}

}  // namespace

Test(open_mpi, runs_unmodified_under_rlxrun, .timeout = 300) {
  if (!is_installed("mpicc.openmpi")) cr_skip_test("mpicc.openmpi is not installed");
  const TempDir dir;
  std::filesystem::create_directory(dir / "shm");
  const std::string program = compile("mpicc.openmpi", dir / "foreign");
  const Case cases[] = {
      {"hello", 0, " of 4 sum 10 node 4 universe 4 app 0", 4},
      {"spawn", 0, " of 2 parents 4 value 77", 2},
      {"wdir", 0, " value 77 in /usr\n", 2},
      {"missing", 0, ": spawn error\n", 4},
      {"names", 0, " met 2", 4},
      {"abort", 42, "called abort with code 42", 1},
      {"kill", 137, "signal 9", 1},
      {"exit3", 3, "rank 1", 1},
      {"exit0", 1, "rank 1", 1},
  };
  for (const auto& row : cases) expect(row, program, dir / "shm");
}

Test(open_mpi, is_told_which_program_it_cannot_spawn, .timeout = 60) {
  if (!is_installed("mpicc.openmpi")) cr_skip_test("mpicc.openmpi is not installed");
  const TempDir dir;
  const auto result =
      run({built("rlxrun"), "-n", "1", compile("mpicc.openmpi", dir / "foreign"), "missing"});
  cr_expect(result.code == 0 && count(result.err, "spawn refused: not started on ") == 1 &&
                count(result.err, ": /no/such/program: No such file or directory\n") == 1,
            "%s", result.text().c_str());
}

Test(open_mpi, waits_in_its_init_until_it_is_let_go, .timeout = 60) {
  if (!is_installed("mpicc.openmpi")) cr_skip_test("mpicc.openmpi is not installed");
  const TempDir dir;
  const std::string program = compile("mpicc.openmpi", dir / "foreign"), said = dir / "said";
  const auto result =
      run({"sh", "-c",
           built("rlxrun") + " --stop-in-init --timeout 30 --oversubscribe -n 2 " + program +
               " hello 2>" + said + " & until grep -q '2 of 2 ranks wait in init' " + said +
               "; do kill -0 $! || exit; sleep 0.02; done; kill -CONT $!; wait $!"});
  cr_expect(result.code == 0 && count(result.out, " of 2 sum 3 ") == 2, "%s",
            result.text().c_str());
}

Test(mpich, runs_unmodified_under_rlxrun, .timeout = 300) {
  if (!is_installed("mpicc.mpich")) cr_skip_test("mpicc.mpich is not installed");
  const TempDir dir;
  std::filesystem::create_directory(dir / "shm");
  const std::string program = compile("mpicc.mpich", dir / "foreign");
  const Case cases[] = {
      {"hello", 0, " of 4 sum 10 node 4 universe 4 app 0", 4},
      {"abort", 42, "called abort with code 42", 1},
      {"kill", 137, "signal 9", 1},
      {"exit3", 3, "rank 1", 1},
      {"exit0", 1, "rank 1", 1},
  };
  for (const auto& row : cases) expect(row, program, dir / "shm");
}

Test(mpich, runs_from_a_script_when_told_so, .timeout = 60) {
  if (!is_installed("mpicc.mpich")) cr_skip_test("mpicc.mpich is not installed");
  const TempDir dir;
  const std::string program = compile("mpicc.mpich", dir / "foreign");
  const auto result = run({built("rlxrun"), "--oversubscribe", "--pmi1", "-np", "3", "sh", "-c",
                           "exec " + program + " hello"});
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect_eq(count(result.out, " of 3 sum 6 node 3 "), 3, "%s", result.text().c_str());
}

Test(foreign, jobs_of_several_apps_know_their_place, .timeout = 120) {
  const TempDir dir;
  for (const std::string compiler : {"mpicc.openmpi", "mpicc.mpich"}) {
    if (!is_installed(compiler)) cr_skip_test("%s is not installed", compiler.c_str());
    const auto program = compile(compiler, dir / compiler);
    const auto result = run({built("rlxrun"), "--oversubscribe", "-np", "1", program, "hello", ":",
                             "-np", "2", program, "hello"});
    cr_expect_eq(result.code, 0, "%s", result.text().c_str());
    cr_expect_eq(count(result.out, " of 3 sum 6 node 3 "), 3, "%s", result.text().c_str());
    cr_expect_eq(count(result.out, " app 1\n"), 2, "%s", result.text().c_str());
  }
}

Test(open_mpi, may_be_started_by_its_own_mpirun_inside_a_rank, .timeout = 60) {
  if (!is_installed("mpicc.openmpi")) cr_skip_test("mpicc.openmpi is not installed");
  const TempDir dir;
  const std::string program = compile("mpicc.openmpi", dir / "foreign");
  const auto result = run({built("rlxrun"), "-n", "1", "mpirun.openmpi", "--allow-run-as-root",
                           "--oversubscribe", "-n", "2", program, "hello"});
  cr_expect(result.code == 0 && count(result.out, " of 2 sum 3 ") == 2, "%s",
            result.text().c_str());
}

Test(our_client, says_itself_why_it_aborts_under_another_launcher, .timeout = 60) {
  if (!is_installed("mpirun.openmpi")) cr_skip_test("mpirun.openmpi is not installed");
  CommandOptions options;
  options.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  const auto result =
      run({"mpirun.openmpi", "--oversubscribe", "-np", "2", built("test/pmix_glue/rank"), "abort"},
          options);
  cr_expect(result.code == 7 && holds(result.err, "rank 1 aborts the job: for a test"), "%s",
            result.text().c_str());
}

Test(our_client, runs_under_the_mpirun_of_open_mpi, .timeout = 300) {
  if (!is_installed("mpirun.openmpi")) cr_skip_test("mpirun.openmpi is not installed");
  CommandOptions options;
  options.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"};
  options.timeout_ms = 40000;
  // It hangs now and then by itself when ranks outnumber cores, so it has three tries.
  std::optional<CommandResult> result;
  for (int i = 0; i < 3 && (!result || result->timed_out); ++i)
    result = run(
        {"mpirun.openmpi", "--oversubscribe", "-np", "3", built("test/pmix_glue/rank"), "plain"},
        options);
  cr_expect_eq(result->code, 0, "%s", result->text().c_str());
  cr_expect_eq(count(result->out, " of 3 source pmix locals 0,1,2,"), 3, "%s",
               result->text().c_str());
}

Test(our_client, refuses_to_be_several_worlds_of_one_under_pmi1_alone, .timeout = 120) {
  if (!is_installed("mpiexec.mpich")) cr_skip_test("mpiexec.mpich is not installed");
  const auto result = run({"mpiexec.mpich", "-n", "2", built("test/pmix_glue/rank"), "plain"});
  cr_expect_neq(result.code, 0);
  cr_expect(count(result.out + result.err, "PMI-1 only") > 0, "%s", result.text().c_str());
}
