// SPDX-License-Identifier: MIT OR Apache-2.0
// PMIx servers of several nodes, each a process, and ranks of one job on them.
#include <criterion/criterion.h>

#include "pmix_glue/carrier.h"
#include "test/pmix_glue/foreign.h"
#include "test/pmix_glue/hosted.h"
#include "test/support/command.h"

using namespace rlx;
using namespace rlx::test;

namespace {

constexpr uint32_t kTop = pmix::kRoot;
const std::vector<uint32_t> kPair = {kTop, kTop}, kChain = {kTop, 0, 1};

Outcome host(const std::vector<uint32_t>& parents, std::vector<std::string> args, uint32_t n_ranks,
             HostedOptions options = {}) {
  args.insert(args.begin(), built("test/pmix_glue/rank"));
  options.parents = parents;
  return host_job({{args, n_ranks}}, options);
}

// Ends the job when `text` was written `n` times.
HostedOptions until(const std::string& text, int n) {
  HostedOptions options;
  options.kill_on_failure = false;
  options.until = [text, n](const std::string& output) { return count(output, text) == n; };
  return options;
}

}  // namespace

Test(nodes, give_ranks_their_place_and_the_blobs_of_all, .timeout = 60) {
  const struct {
    std::vector<uint32_t> parents;
    uint32_t n_ranks;
    const char* locals;  // of rank 0
  } table[] = {{kPair, 4, "0,2,"}, {kChain, 5, "0,3,"}, {kChain, 2, "0,"}};
  for (const auto& row : table) {
    const auto outcome = host(row.parents, {"plain"}, row.n_ranks);
    cr_assert(outcome.all_good(), "%s", outcome.text().c_str());
    const auto line =
        "rank 0 of " + std::to_string(row.n_ranks) + " source pmix locals " + row.locals + "\n";
    cr_expect_eq(count(outcome.output, line), 1, "%s in %s", line.c_str(), outcome.text().c_str());
  }
}

Test(nodes, carry_out_what_ranks_ask_for_across_them, .timeout = 120) {
  const struct {
    const char* mode;
    uint32_t n_ranks, n_all;
  } table[] = {{"much", 5, 5},  {"sets", 4, 4}, {"events", 4, 4},
               {"names", 2, 2}, {"log", 4, 4},  {"spawn", 1, 3}};
  for (const auto& row : table)
    for (const auto& parents : {kPair, kChain}) {
      const auto outcome = host(parents, {row.mode}, row.n_ranks);
      cr_expect(outcome.all_good(), "%s: %s", row.mode, outcome.text().c_str());
      cr_expect_eq(outcome.ranks.size(), row.n_all, "%s", row.mode);
    }
}

Test(nodes, park_a_read_until_the_owner_has_put_or_died, .timeout = 60) {
  const auto outcome = host(kPair, {"direct"}, 4, until("done ", 3));
  cr_expect(outcome.finished, "%s", outcome.text().c_str());
  cr_expect_eq(outcome.status(3), 3, "%s", outcome.text().c_str());
}

Test(nodes, hear_of_a_rank_that_dies_in_any_phase, .timeout = 120) {
  const struct {
    const char *phase, *how, *heard;
  } table[] = {
      {"before_init", "kill", "killed by signal 9"},
      {"before_init", "exit3", "exited with status 3"},
      {"before_fence", "kill", "killed by signal 9"},
      {"before_fence", "exit0", "exited without finalizing"},
      {"in_fence", "kill", "killed by signal 9"},
      {"in_fence", "exit3", "exited with status 3"},
      {"after_fence", "exit3", "exited with status 3"},
  };
  for (const auto& row : table) {
    // Rank 1 is alone on its node, so that no other server sees it go.
    const auto outcome = host(kChain, {"death", row.phase, row.how}, 3, until("error ", 2));
    cr_expect(outcome.finished, "%s %s: %s", row.phase, row.how, outcome.text().c_str());
    cr_expect_eq(count(outcome.output, std::string("rank 1: ") + row.heard), 2, "%s %s: %s",
                 row.phase, row.how, outcome.text().c_str());
  }
}

Test(nodes, end_a_fence_when_one_of_them_is_lost, .timeout = 60) {
  HostedOptions options = until("error peer failed", 2);
  bool done = false;
  options.lose = [&done](const std::string& output) {
    if (done || count(output, "in\n") < 4) return -1;
    done = true;
    return 1;  // has the ranks of odd number
  };
  const auto outcome = host(kPair, {"survive"}, 4, options);
  cr_expect(outcome.finished, "%s", outcome.text().c_str());
  cr_expect_eq(count(outcome.output, "the host it ran on is lost"), 2, "%s",
               outcome.text().c_str());
}

Test(nodes, end_a_fence_at_its_time_limit, .timeout = 60) {
  const auto outcome = host(kPair, {"timed"}, 4, until("timed out", 2));
  cr_expect(outcome.finished, "%s", outcome.text().c_str());
}

Test(nodes, end_the_whole_job_or_one_rank_by_abort, .timeout = 60) {
  const auto whole = host(kPair, {"abort"}, 4);
  cr_expect(whole.finished && whole.abort_status == 7, "%s", whole.text().c_str());
  HostedOptions options;
  options.kill_on_failure = false;
  const auto one = host(kPair, {"abort_one"}, 4, options);
  cr_expect(one.finished && one.abort_status == 5, "%s", one.text().c_str());
  cr_expect_eq(one.status(1), 137, "%s", one.text().c_str());
  cr_expect_eq(count(one.output, "heard 1 killed by signal 9"), 3, "%s", one.text().c_str());
}

// The nodes share this host, so shared memory between their ranks must stay off.
Test(nodes, run_unmodified_open_mpi, .timeout = 240) {
  if (!is_installed("mpicc.openmpi")) cr_skip_test("mpicc.openmpi is not installed");
  const TempDir dir;
  const std::string program = compile("mpicc.openmpi", dir.path() + "/foreign");
  const struct {
    const char* mode;
    int status;        // of rank 1
    const char* line;  // in the output, `n` times
    int n;
  } table[] = {
      {"hello", 0, " of 4 sum 10 node 2 universe 6 app 0", 4},
      {"spawn", 0, " of 2 parents 4 value 77", 2},
      {"names", 0, " met 2", 4},
      {"abort", 137, "", -1},
      {"kill", 137, "", -1},
      {"exit3", 3, "", -1},
  };
  for (const auto& row : table) {
    HostedOptions options;
    options.parents = kPair;
    options.environment = {"OMPI_MCA_btl=self,tcp", "OMPI_MCA_btl_tcp_if_include=lo",
                           "OMPI_MCA_pml=ob1"};
    const auto outcome = host_job({{{program, row.mode}, 4}}, options);
    cr_expect(outcome.finished, "%s: %s", row.mode, outcome.text().c_str());
    cr_expect(outcome.status(1) == row.status || (outcome.abort_status == 42 && row.status == 137),
              "%s: %s", row.mode, outcome.text().c_str());
    if (row.n >= 0)
      cr_expect_eq(count(outcome.output, row.line), row.n, "%s: %s", row.mode,
                   outcome.text().c_str());
  }
}

Test(nodes, run_unmodified_mpich, .timeout = 120) {
  if (!is_installed("mpicc.mpich")) cr_skip_test("mpicc.mpich is not installed");
  const TempDir dir;
  const std::string program = compile("mpicc.mpich", dir.path() + "/foreign");
  HostedOptions options;
  options.parents = kChain;
  options.environment = {"UCX_TLS=tcp,self,sysv,cma"};
  const auto good = host_job({{{program, "hello"}, 5}}, options);
  cr_expect(good.all_good(), "%s", good.text().c_str());
  cr_expect_eq(count(good.output, " of 5 sum 15 node 2 "), 4, "%s", good.text().c_str());
  const auto abort = host_job({{{program, "abort"}, 5}}, options);
  cr_expect(abort.finished && abort.abort_status == 42, "%s", abort.text().c_str());
}
