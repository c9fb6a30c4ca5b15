// SPDX-License-Identifier: MIT OR Apache-2.0
// Daemons that call in: only those that know the secret are let in, and they only talk to a head
// that knows it too.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

#include "launcher/dial.h"
#include "launcher/hosts.h"
#include "launcher/muster.h"
#include "test/launcher/fake_hosts.h"
#include "test/launcher/launch.h"

using namespace rlx;
using namespace rlx::launcher;
using namespace rlx::test;

namespace {

std::vector<SocketAddress> loopback_of(const Listener& listener) {
  auto addresses = listener.addresses();
  std::erase_if(addresses,
                [](const SocketAddress& one) { return one.ip.v6 || one.ip.bytes[0] != 127; });
  return addresses;
}

// Shell that keeps the value of an option in $which, skips the others, and leaves the command in
// $@.
std::string take_options(const std::string& option) {
  return "for word; do shift; case $word in " + option +
         "=*) which=${word#*=};; --*) ;; *) set -- \"$word\" \"$@\"; break;; esac; done\n";
}

std::vector<std::string> lines_to_type(const Background& job, std::size_t n) {
  std::vector<std::string> lines;
  const auto all_are_there = [&] {
    lines.clear();
    std::istringstream err(job.err());
    for (std::string line; std::getline(err, line) && !err.eof();)
      if (line.starts_with("  h")) lines.push_back(line.substr(line.find("echo ")));
    return lines.size() == n;
  };
  cr_assert(eventually(all_are_there, 10000), "%s", job.err().c_str());
  return lines;
}

}  // namespace

Test(dial, lets_in_who_knows_the_secret_and_nobody_else, .timeout = 60) {
  const Secret secret = Secret::random();
  Loop loop;
  std::vector<std::string> names;
  Fd arrived;
  int n_turned_away = 0;
  auto listener = Listener::open(loop, secret,
                                 {[&](const std::string& name) { return name == "h2"; },
                                  [&](const std::string& name, Fd socket) {
                                    names.push_back(name);
                                    arrived = std::move(socket);
                                    loop.stop();
                                  },
                                  [&](const std::string&) { ++n_turned_away; }});
  cr_assert(listener.has_value());
  const auto heads = loopback_of(**listener);
  cr_assert_eq(heads.size(), 1u);
  Result<Fd> stranger = fail(Code::kInternal, ""), again = fail(Code::kInternal, ""),
             friendly = fail(Code::kInternal, "");
  std::thread callers([&] {
    stranger = dial({Secret::random(), heads, ""}, "stranger");
    again = dial({secret, heads, ""}, "h2");
    // The first address is nobody's.
    friendly = dial({secret, {{heads[0].ip, 1, false}, heads[0]}, ""}, "h1");
  });
  loop.run();
  callers.join();
  cr_expect(!stranger && holds(stranger.error().text, " refused stranger: "));
  cr_expect_eq(n_turned_away, 1);
  cr_expect(!again && holds(again.error().text, "h2 has called in already"));
  cr_expect(names == std::vector<std::string>{"h1"});
  cr_assert(friendly.has_value());
  cr_expect_eq(write(friendly->get(), "x", 1), 1);
  char c = 0;
  cr_expect(eventually([&] { return read(arrived.get(), &c, 1) == 1; }, 5000) && c == 'x');
}

Test(dial, invitations_are_read_as_they_are_written) {
  Invitation invitation{Secret::random(), {}, "h1"};
  invitation.heads.push_back({{false, {10, 0, 0, 1}}, 4000, false});
  invitation.heads.push_back({{true, {0xfd, 1}}, 65535, false});
  const auto read = read_invitation(to_text(invitation));
  cr_assert(read.has_value());
  cr_expect(read->secret.text() == invitation.secret.text() && read->heads == invitation.heads &&
            read->name == "h1");
  const std::string secret = invitation.secret.text();
  for (const auto& bad : {std::string(), secret, std::string("xy 10.0.0.1:1"), secret + " 10.0.0.1",
                          secret + " 10.0.0:1", secret + " [::1:1", secret + " 10.0.0.1:99999",
                          secret + " 10.0.0.1:1 a b"})
    cr_expect(!read_invitation(bad), "%s", bad.c_str());
}

Test(dial, serves_daemons_that_are_started_by_hand, .timeout = 60) {
  const Mark mark;
  Background job(
      with_sh("--host h0:1,h1:1 --launcher manual", "echo $RANK $RLX_NODE_RANK $RLX_NNODES"), mark);
  const auto lines = lines_to_type(job, 2);
  CommandResult results[2];
  std::thread second([&] { results[1] = run({"sh", "-c", lines[1]}); });
  results[0] = run({"sh", "-c", lines[0]});
  second.join();
  std::vector<std::string> out = {job.line(), job.line()};
  std::sort(out.begin(), out.end());
  cr_expect(out == (std::vector<std::string>{"0 0 2", "1 1 2"}), "%s", job.err().c_str());
  cr_expect_eq(job.wait(), 0);
  for (const auto& result : results) cr_expect_eq(result.code, 0, "%s", result.text().c_str());
}

Test(dial, refuses_a_line_that_was_typed_on_another_host_of_the_job, .timeout = 60) {
  const Mark mark;
  const std::string here = own_hostname();
  Background job(cut("--launcher manual --host h1:1," + here + ":1 true"), mark);
  const auto lines = lines_to_type(job, 1);
  run({"sh", "-c", lines[0]});
  cr_expect_eq(job.wait(), 1);
  cr_expect(holds(job.err(), "cannot start on h1: its line was typed on " + here + ", which is "),
            "%s", job.err().c_str());
}

// A stand-in for flux, as its manuals describe it: flux exec gives its input to all ranks, tells at
// once of one that cannot run the command, goes on with the others, and passes SIGTERM on.
Test(dial, serves_daemons_that_flux_exec_starts, .timeout = 60) {
  const TempDir dir;
  const std::string flux = dir / "flux";
  std::ofstream(flux)
      << "#!/bin/sh\n"
         "test \"$*\" = 'hostlist local' && { echo 'f[0-3]'; exit; }\n"
         "echo \"$* ${SLURMD_NODENAME-unset}\" >"
      << dir / "said"
      << "\n"
         "trap 'kill $pids' TERM\n"
         "shift\n"
      << take_options("--rank")
      << "read -r line\n"
         "for rank in $(echo $which | tr , ' '); do\n"
         "  test \"$rank\" = \"$FAIL\" && { "
         "echo \"flux-exec: Error: rank $rank: $1: No such file or directory\" >&2; continue; }\n"
         "  echo \"$line\" | FLUX_URI=of.f$rank SLURMD_NODENAME=f$rank$DOMAIN \"$@\" &\n"
         "  pids=\"$pids $!\"\n"
         "done\n"
         "wait; wait\n"
         "test -z \"$FAIL\" || exit 127\n";
  chmod(flux.c_str(), 0755);
  CommandOptions options{.environment = {"PATH=" + dir.path() + ":/usr/bin:/bin",
                                         "FLUX_URI=local:///x", "FLUX_JOB_ID=f2Qm",
                                         "FLUX_TASK_RANK=0", "SLURMD_NODENAME=here"}};
  const auto result = rlxrun_sh("-n 3 --nproc-per-node 1 --host f1,f2,f3",
                                "echo ${FLUX_TASK_RANK-$FLUX_URI}", options);
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect_eq(count(result.out, "of.f"), 3, "%s", result.text().c_str());
  std::ostringstream said;
  said << std::ifstream(dir / "said").rdbuf();
  cr_expect(said.str().starts_with("exec --rank=1,2,3 --dir=/ --jobid=f2Qm /"), "%s",
            said.str().c_str());
  cr_expect(said.str().ends_with("/rlxrun --daemon=dial unset\n"), "%s", said.str().c_str());
  const auto with = [&](const char* variable) {
    auto more = options;
    more.environment.emplace_back(variable);
    return rlxrun(cut("--nproc-per-node 1 --start-timeout 30 true"), more);
  };
  const auto domain = with("DOMAIN=.example.org");
  cr_expect_eq(domain.code, 0, "%s", domain.text().c_str());
  const auto others = with("DOMAIN=x");
  cr_expect(others.code == 1 && holds(others.err, "rlxrun: cannot start on f") &&
                holds(others.err, ": a daemon called in from 'f") &&
                holds(others.err, "x', which is none of the hosts; "),
            "%s", others.err.c_str());
  options.environment.push_back("FAIL=2");
  const auto failed = rlxrun(cut("--nproc-per-node 1 true"), options);
  cr_expect_eq(failed.code, 1);
  cr_expect(failed.err.starts_with("rlxrun: cannot start on f0") &&
                holds(failed.err, ": flux-exec: Error: rank 2: /") &&
                std::count(failed.err.begin(), failed.err.end(), '\n') == 1,
            "%s", failed.err.c_str());
  const auto outside = rlxrun(cut("--host h0 --launcher flux true"));
  cr_expect(holds(outside.err,
                  "--launcher flux starts daemons on the hosts of a Flux job; these "
                  "are of --host\n"),
            "%s", outside.err.c_str());
}

// A stand-in for srun: gives its input to all, as srun does, and tells each which node it is on.
Test(dial, serves_daemons_that_srun_starts, .timeout = 60) {
  const TempDir dir;
  const std::string srun = dir / "srun";
  std::ofstream(srun) << "#!/bin/sh\n"
                         "echo \"$*\" >"
                      << dir / "said"
                      << "\nenv | grep ^SLURM_NTASKS && exit 9\n"
                      << take_options("--nodelist")
                      << "read -r line\n"
                         "test \"$FAIL\" && { echo 'srun: error: no' >&2; exit 3; }\n"
                         "for node in $(echo $which | tr , ' '); do echo \"$line\" | "
                         "SLURMD_NODENAME=$node \"$@\" & done\nwait\n";
  chmod(srun.c_str(), 0755);
  const CommandOptions options{
      .environment = {"PATH=" + dir.path() + ":/usr/bin:/bin", "SLURM_NTASKS=7"}};
  const auto result = rlxrun_sh("--host h0:1,h1:1,h2:1 --launcher slurm",
                                "test $SLURM_NTASKS = 7 && echo $RANK", options);
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect_eq(std::count(result.out.begin(), result.out.end(), '\n'), 3);
  std::ostringstream said;
  said << std::ifstream(dir / "said").rdbuf();
  cr_expect(said.str().starts_with("--nodes=3 --ntasks=3 --ntasks-per-node=1 --nodelist=h0,h1,h2 "
                                   "--overlap --mpi=none --cpu-bind=none --kill-on-bad-exit=1 "
                                   "--export=ALL --quiet "),
            "%s", said.str().c_str());
  auto failing = options;
  failing.environment.push_back("FAIL=1");
  const auto failed = rlxrun(cut("--host h0:1,h1:1 --launcher slurm true"), failing);
  expect_same(failed.err,
              "rlxrun: cannot start on h0, h1: srun exited with code 3: srun: error: no\n");
  const auto missing = rlxrun(cut("--host h0:1,h1:1 --launcher slurm true"),
                              {.environment = {"PATH=" + dir.path() + "/none", "SLURM_JOB_ID=17"}});
  cr_expect(
      holds(missing.err, "cannot start on h0, h1: srun: command not found in PATH; --rm none ") &&
          holds(missing.err, "Slurm job 17"),
      "%s", missing.err.c_str());
}
