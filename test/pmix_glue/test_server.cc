// SPDX-License-Identifier: MIT OR Apache-2.0
// The PMIx server and our client of it, as real processes.
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "test/pmix_glue/hosted.h"
#include "test/support/command.h"

using namespace rlx;
using namespace rlx::test;

namespace {

std::vector<std::string> rank_program(std::vector<std::string> args) {
  args.insert(args.begin(), built("test/pmix_glue/rank"));
  return args;
}

}  // namespace

Test(server, gives_ranks_their_place_and_each_others_blobs, .timeout = 120) {
  for (const uint32_t n : {1u, 2u, 5u}) {
    const auto outcome = host_job({{rank_program({"plain"}), n}});
    cr_assert(outcome.all_good(), "%s", outcome.text().c_str());
    std::string locals;
    for (uint32_t r = 0; r < n; ++r) locals += std::to_string(r) + ",";
    for (uint32_t r = 0; r < n; ++r) {
      const auto line = "rank " + std::to_string(r) + " of " + std::to_string(n) +
                        " source pmix locals " + locals + "\n";
      cr_expect_eq(count(outcome.output, line), 1, "%s in\n%s", line.c_str(),
                   outcome.text().c_str());
      const auto& state = outcome.ranks.at({outcome.job, r}).state;
      cr_expect(state.connected && state.finalized);
    }
  }
}

Test(server, hosts_several_apps_and_bound_ranks, .timeout = 120) {
  HostedOptions options;
  options.cpus = "0";
  const auto outcome =
      host_job({{rank_program({"plain"}), 2}, {rank_program({"plain"}), 1}}, options);
  cr_assert(outcome.all_good(), "%s", outcome.text().c_str());
  cr_expect_eq(count(outcome.output, " of 3 source pmix locals 0,1,2,"), 3, "%s",
               outcome.text().c_str());
}

Test(server, runs_programs_that_are_no_clients, .timeout = 60) {
  const auto outcome = host_job({{{"/bin/sh", "-c", "echo $PMIX_RANK of $JSM_JSRUN_PORT"}, 2}});
  cr_assert(outcome.all_good(), "%s", outcome.text().c_str());
  cr_expect_eq(count(outcome.output, " of 1\n"), 2, "%s", outcome.text().c_str());
  cr_expect(!outcome.ranks.begin()->second.state.connected);
}

static const struct Death {
  const char* phase;
  const char* how;
  const char* heard;
  int status;
} kDeaths[] = {
    {"before_init", "kill", "killed by signal 9", 137},
    {"before_init", "exit3", "exited with status 3", 3},
    {"before_fence", "kill", "killed by signal 9", 137},
    {"before_fence", "exit0", "exited without finalizing", 0},
    {"in_fence", "kill", "killed by signal 9", 137},
    {"after_fence", "exit0", "exited without finalizing", 0},
    {"after_fence", "exit3", "exited with status 3", 3},
};

Test(server, names_a_rank_that_dies_in_any_phase_to_the_others, .timeout = 240) {
  for (const auto& death : kDeaths) {
    HostedOptions options;
    options.kill_on_failure = false;  // the others must learn of it by themselves
    options.until = [](const std::string& output) { return count(output, "error ") == 2; };
    const auto outcome = host_job({{rank_program({"death", death.phase, death.how}), 3}}, options);
    cr_assert(outcome.finished, "%s %s: %s", death.phase, death.how, outcome.text().c_str());
    cr_expect_eq(outcome.status(1), death.status, "%s %s", death.phase, death.how);
    cr_expect_eq(count(outcome.output, "error peer failed"), 2, "%s %s: %s", death.phase, death.how,
                 outcome.text().c_str());
    cr_expect_eq(count(outcome.output, std::string("rank 1: ") + death.heard), 2, "%s %s: %s",
                 death.phase, death.how, outcome.text().c_str());
  }
}

Test(server, says_who_has_not_come_at_the_deadline, .timeout = 60) {
  HostedOptions options;
  options.until = [](const std::string& output) {
    return count(output, "deadline; rank 1 has not come") == 2;
  };
  const auto outcome = host_job({{rank_program({"late"}), 3}}, options);
  cr_assert(outcome.finished, "%s", outcome.text().c_str());
  for (uint32_t r = 0; r < 3; ++r)
    cr_expect_eq(outcome.status(r), 137, "%s", outcome.text().c_str());
}

// libpmix 4.2 alone crashes in every third of these runs: see pmix_glue/single_rounds.cc.
Test(server, survives_the_death_of_all_ranks_at_once_inside_a_fence, .timeout = 120) {
  for (int round = 0; round < 15; ++round) {
    HostedOptions options;
    options.until = [](const std::string& output) { return count(output, "in\n") == 6; };
    const auto outcome = host_job({{rank_program({"half_in"}), 6}}, options);
    cr_assert(outcome.finished, "round %d: %s", round, outcome.text().c_str());
  }
}

Test(server, tells_the_launcher_of_an_abort_before_the_rank_ends, .timeout = 60) {
  const auto outcome = host_job({{rank_program({"abort"}), 3}});
  cr_assert(outcome.finished, "%s", outcome.text().c_str());
  cr_assert(outcome.abort_status.has_value());
  cr_expect_eq(*outcome.abort_status, 7);
  cr_expect_str_eq(outcome.abort_message.c_str(), "for a test");
}

Test(server, keeps_names_parks_lookups_and_forgets_as_told, .timeout = 60) {
  const auto outcome = host_job({{rank_program({"names"}), 2}});
  cr_expect(outcome.all_good(), "%s", outcome.text().c_str());
}

Test(server, logs_and_answers_questions, .timeout = 60) {
  const auto outcome = host_job({{rank_program({"log"}), 2}});
  cr_expect(outcome.all_good(), "%s", outcome.text().c_str());
  cr_expect_eq(outcome.logged.size(), 2u);
  for (const auto& line : outcome.logged) cr_expect_str_eq(line.c_str(), "a line to log");
}

Test(server, refuses_groups_at_once, .timeout = 60) {
  HostedOptions options;
  options.kill_on_failure = false;
  const auto outcome = host_job({{rank_program({"group"}), 2}}, options);
  cr_expect(outcome.all_good(), "%s", outcome.text().c_str());
}

Test(server, spawns_a_job_that_its_parent_can_connect_to, .timeout = 60) {
  const auto outcome = host_job({{rank_program({"spawn"}), 1}});
  cr_expect(outcome.all_good(), "%s", outcome.text().c_str());
  cr_expect_eq(outcome.n_spawned, 1);
  cr_expect_eq(outcome.ranks.size(), 3u);
}

Test(server, says_what_to_do_when_the_loopback_interface_is_down, .timeout = 60) {
  if (run({"unshare", "-Urn", "true"}).code != 0)
    cr_skip_test("unshare -Urn is not permitted here");
  const auto result = run({"unshare", "-Urn", built("rlxrun"), "-np", "1", "true"});
  cr_expect_eq(result.code, 1, "%s", result.text().c_str());
  cr_expect_eq(count(result.err, "ip link set lo up"), 1, "%s", result.text().c_str());
  cr_expect_eq(count(result.err, "\n"), 1, "%s", result.text().c_str());
}

Test(client, hears_within_seconds_that_the_server_was_killed, .timeout = 60) {
  const TempDir dir;
  HostedOptions options;
  options.dir = dir.path();
  options.die_with_us = false;
  options.until = [](const std::string& output) {
    if (count(output, "ready") == 2) ::kill(::getpid(), SIGKILL);
    return false;
  };
  cr_expect(!host_job({{rank_program({"lost"}), 2}}, options).finished);
  const Deadline deadline = Deadline::after_ms(20000);
  int n_heard = 0;
  while (n_heard < 2 && !deadline.passed()) {
    n_heard = count(read_file(dir.path() + "/output"), "heard -1 the PMIx server");
    ::usleep(10000);
  }
  cr_expect_eq(n_heard, 2, "%s", read_file(dir.path() + "/output").c_str());
}
