// SPDX-License-Identifier: MIT OR Apache-2.0
// Jobs of rlxrun over several hosts: what our client, Open MPI and MPICH ask of their PMIx servers.
// The hosts are stand-ins that share this one, so shared memory between their ranks must stay off.
#include <criterion/criterion.h>
#include <fmt/format.h>

#include "test/launcher/fake_hosts.h"
#include "test/pmix_glue/foreign.h"
#include "test/support/command.h"

using namespace rlx::test;

namespace {

struct Row {
  const char* hosts;
  const char* program;  // with its mode
  int n_ranks, code;
  const char* line;  // in the output, `n` times
  int n;
};

void expect(const Row& row, const FakeHosts& agent) {
  CommandOptions options;
  options.environment = {"OMPI_MCA_btl=self,tcp", "OMPI_MCA_btl_tcp_if_include=lo",
                         "OMPI_MCA_pml=ob1", "UCX_TLS=tcp,self,sysv,cma"};
  std::vector<std::string> command = {
      built("rlxrun"), "--host", row.hosts, "--launch-agent",           agent.agent(),
      "--tree-radix",  "2",      "-np",     std::to_string(row.n_ranks)};
  std::istringstream words(row.program);
  for (std::string word; words >> word;) command.push_back(word);
  const auto result = run(command, options);
  cr_expect_eq(result.code, row.code, "%s on %s: %s", row.program, row.hosts,
               result.text().c_str());
  cr_expect_eq(count(result.out + result.err, row.line), row.n, "%s on %s: %d times '%s' in %s",
               row.program, row.hosts, row.n, row.line, result.text().c_str());
}

}  // namespace

Test(hosts, serve_our_client, .timeout = 180) {
  const FakeHosts agent;
  const std::string rank = built("test/pmix_glue/rank") + " ";
  const struct {
    const char *hosts, *mode;
    int n_ranks, code;
    const char* line;
    int n;
  } table[] = {
      {"h0:2,h1:2", "plain", 4, 0, " of 4 source pmix locals ", 4},
      {"h0:1,localhost:1,h1:1", "plain", 3, 0, " of 3 source pmix locals ", 3},
      {"h0:1,h1:1,h2:1,h3:1,h4:1,h5:1,h6:1", "sets", 6, 0, "FAILED", 0},  // a tree of two levels
      {"h0:1,h1:1,h2:1,h3:1,h4:1,h5:1,h6:1", "much", 7, 0, "FAILED", 0},
      {"h0:2,h1:2", "events", 4, 0, "FAILED", 0},
      {"h0:1,h1:1", "names", 2, 0, "FAILED", 0},
      {"h0:2,localhost:2", "log", 4, 0, "a line to log", 4},
      {"h0:1,h1:2", "spawn", 1, 0, "FAILED", 0},
      {"localhost:120", "spawn_often", 1, 0, "FAILED", 0},
      {"h0:1,h1:120", "spawn_often", 1, 0, "FAILED", 0},
      {"h0:2,h1:2", "last_stays_away", 4, 0, "timed out", 3},
      {"h0:2,h1:1", "control kill", 3, 0, " kills rank 2 (pid ", 1},
      {"h0:1,localhost:1,h1:1", "control terminate", 3, 0, " ends rank 2 (pid ", 1},
      {"h0:1,h1:1,h2:1", "death in_fence kill", 3, 137, "rank 1 (pid", 1},
      {"h0:1,h1:1,h2:1", "death in_fence exit3", 3, 3, "rank 1 (pid", 1},
      {"h0:2,h1:2", "abort", 4, 7, "called abort with code 7: for a test", 1},
      {"h0:1,h1:1,h2:1", "death before_fence kill", 3, 137, "rank 1 (pid", 1},
      {"h0:1,h1:1,h2:1", "death after_fence exit0", 3, 1, "but without finalizing", 1},
  };
  for (const auto& row : table)
    expect({row.hosts, (rank + row.mode).c_str(), row.n_ranks, row.code, row.line, row.n}, agent);
}

Test(hosts, serve_unmodified_open_mpi, .timeout = 180) {
  if (!is_installed("mpicc.openmpi")) cr_skip_test("mpicc.openmpi is not installed");
  const FakeHosts agent;
  const TempDir dir;
  const std::string program = compile("mpicc.openmpi", dir / "foreign") + " ";
  const struct {
    const char* mode;
    int code;
    const char* line;
    int n;
  } table[] = {
      {"hello", 0, " of 4 sum 10 node 2 universe 4 app 0", 4},
      {"names", 0, " met 2", 4},
      {"abort", 42, "called abort with code 42", 1},
      {"kill", 137, "signal 9", 1},
      {"exit0", 1, "rank 1", 1},
  };
  for (const auto& row : table)
    expect({"h0:2,h1:2", (program + row.mode).c_str(), 4, row.code, row.line, row.n}, agent);
  expect({"h0:3,h1:3", (program + "spawn").c_str(), 4, 0, " of 2 parents 4 value 77", 2}, agent);
}

Test(hosts, give_spawned_ranks_the_slots_that_are_free, .timeout = 60) {
  const FakeHosts agent;
  const std::string spawn = built("test/pmix_glue/rank") + " spawn_on ";
  expect({"h0:2,h1:2", (spawn + "h1 2 0").c_str(), 2, 0, "spawned on h1", 2}, agent);
  expect({"h0:2,h1:2", (spawn + "any 2 0").c_str(), 2, 0, "spawned on h1", 2}, agent);
  expect({"h0:2,h1:2", (spawn + "any 3 out").c_str(), 2, 0, "spawned on", 0}, agent);
  expect({"h0:2,h1:2", (spawn + "h9 1 host").c_str(), 2, 0, "spawned on", 0}, agent);
}

// Whether it leaves early or late; over one host, two, and with programs of other MPIs.
Test(hosts, end_a_job_that_a_rank_left_without_joining, .timeout = 180) {
  const FakeHosts agent;
  const TempDir dir;
  std::vector<std::pair<std::string, const char*>> programs = {
      // and an option for a script of it
      {built("test/pmix_glue/rank") + " plain", "-q"}};
  if (is_installed("mpicc.openmpi"))
    programs.emplace_back(compile("mpicc.openmpi", dir / "open") + " hello", "-q");
  if (is_installed("mpicc.mpich"))
    programs.emplace_back(compile("mpicc.mpich", dir / "mpich") + " hello", "--pmi1");
  for (const auto& [program, option] : programs)
    for (const char* hosts : {"localhost:2", "h0:1,h1:1"})
      for (const char* leaves : {"exit 0", "sleep 1"}) {
        const std::string script =
            fmt::format("test $RANK = 1 && {{ {}; exit 0; }}; exec {}", leaves, program);
        const auto result =
            run({built("rlxrun"), option, "--host", hosts, "--launch-agent", agent.agent(), "-np",
                 "2", "-x", "UCX_TLS=tcp,self,sysv,cma", "sh", "-c", script},
                {.timeout_ms = 20000});
        cr_expect(result.code == 1 && count(result.err, "rank 1 (pid") == 1 &&
                      count(result.err, "never joined") == 1,
                  "%s on %s: %s", script.c_str(), hosts, result.text().c_str());
      }
}

Test(hosts, serve_unmodified_mpich, .timeout = 120) {
  if (!is_installed("mpicc.mpich")) cr_skip_test("mpicc.mpich is not installed");
  const FakeHosts agent;
  const TempDir dir;
  const std::string program = compile("mpicc.mpich", dir / "foreign") + " ";
  expect({"h0:2,h1:2", (program + "hello").c_str(), 4, 0, " of 4 sum 10 node 2 ", 4}, agent);
  expect({"h0:2,h1:2", (program + "abort").c_str(), 4, 42, "called abort with code 42", 1}, agent);
}
