// SPDX-License-Identifier: MIT OR Apache-2.0
// Rough surroundings: odd TMPDIR, no names, no home, no rights, little shared memory, many at once.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "test/launcher/launch.h"

using namespace rlx::test;

namespace {

// The command can be run here at all (namespaces and other users need rights).
bool can_run(const std::vector<std::string>& command) { return run(command).code == 0; }

}  // namespace

// libpmix can hang in its end where ranks died while they connected: rlxrun does not.
Test(rough, ranks_that_die_while_others_join_hang_nobody, .timeout = 120) {
  // Ranks do not start, for lack of descriptors, while others connect. It took one launch of 15.
  const std::string job = "ulimit -n 64; exec " + built("rlxrun") + " -q -n 40 --oversubscribe " +
                          built("test/pmix_glue/rank") + " plain";
  for (int i = 0; i < 60; ++i) {
    const auto result = run({"sh", "-c", job}, {.timeout_ms = 5000});
    cr_assert(result.code == 1 && !result.timed_out, "%d: %s", i, result.text().c_str());
  }
}

// libevent and libpmix end a process that gets no descriptors, in words of their own.
Test(rough, too_few_descriptors_are_said_in_our_words, .timeout = 60) {
  const char* const flags = std::getenv("TEST_CXXFLAGS");
  if (flags && std::string(flags).find("-fsanitize") != std::string::npos)
    cr_skip_test("sanitizers want descriptors too, to look at memory, and say so themselves");
  for (int limit = 10; limit <= 40; ++limit) {
    const auto result = run(
        {"sh", "-c", fmt::format("ulimit -n {}; exec {} -q -n 1 true", limit, built("rlxrun"))});
    if (result.code == 0) continue;
    cr_expect(result.code == 1 && result.err.starts_with("rlxrun: ") &&
                  std::ranges::count(result.err, '\n') == 1 &&
                  result.err.find("open") != std::string::npos,
              "%d: %s", limit, result.text().c_str());
  }
}

Test(rough, temporary_directories_are_survived_and_named, .timeout = 60) {
  const TempDir dir;
  const std::string missing = dir / "missing", file = dir / "file";
  const std::string deep = dir / std::string(150, 'd');
  std::ofstream(file) << "x";
  std::filesystem::create_directory(deep);
  for (const auto& tmpdir : {missing, file, deep, std::string("/proc")}) {
    const auto noted =
        run({built("rlxrun"), "-n", "1", "echo", "ran"}, {.environment = {"TMPDIR=" + tmpdir}});
    expect_same(noted.out, "ran\n", noted.text());
    cr_expect_eq(noted.code, 0);
    cr_expect(noted.err.find(tmpdir) != std::string::npos, "%s", noted.text().c_str());
  }
  for (const auto& variable : {"TMPDIR", "TMPDIR="}) {
    const auto result = run({built("rlxrun"), "-n", "1", "true"}, {.environment = {variable}});
    cr_expect(result.code == 0 && result.err.empty(), "%s", result.text().c_str());
  }
  const auto ours =
      rlxrun(cut("-n 1 true"), {.environment = {"RLX_TMPDIR=" + dir.path(), "TMPDIR=" + missing}});
  cr_expect(ours.code == 0 && scratch_in(dir.path()).empty(), "%s", ours.text().c_str());
}

Test(rough, environments_without_home_or_path_work, .timeout = 60) {
  const auto bare = run({"env", "-i", built("rlxrun"), "-q", "-n", "2", "--oversubscribe",
                         "/bin/sh", "-c", "echo ran"});
  expect_same(bare.out, "ran\nran\n", bare.text());
  expect_same(run({"env", "-i", built("rlxrun"), "-q", "-n", "1", "echo", "ran"}).out, "ran\n");
  const std::vector<std::string> other = {"setpriv", "--reuid", "54321",
                                          "--regid", "54321",   "--clear-groups"};
  auto command = other;
  command.push_back("true");
  if (!can_run(command)) return;
  const TempDir dir;  // another user cannot look into the build
  std::filesystem::copy_file(built("rlxrun"), dir / "rlxrun");
  chmod(dir.path().c_str(), 0755);
  command = other;
  for (const auto& word : {dir / "rlxrun", std::string("-q"), std::string("-n"), std::string("1"),
                           std::string("id"), std::string("-u")})
    command.push_back(word);
  const auto stranger = run(command, {.environment = {"HOME", "TMPDIR"}});
  expect_same(stranger.out, "54321\n", stranger.text());
}

Test(rough, hosts_whose_name_cannot_be_resolved_work, .timeout = 60) {
  if (!can_run({"unshare", "-u", "true"})) cr_skip("no rights to change the host's name");
  const auto result = run({"unshare", "-u", "sh", "-c",
                           "hostname x.y.invalid && exec " + built("rlxrun") +
                               " -q -n 2 --oversubscribe --host x.y.invalid:2 hostname"});
  expect_same(result.out, "x.y.invalid\nx.y.invalid\n", result.text());
}

Test(rough, shared_memory_may_be_tiny_or_missing, .timeout = 60) {
  if (!can_run({"unshare", "-m", "true"})) cr_skip("no rights to mount");
  for (const char* mount :
       {"mount -t tmpfs -o size=64k none /dev/shm", "mount -t tmpfs -o ro none /dev/shm"}) {
    const auto result = run(
        {"unshare", "-m", "sh", "-c",
         fmt::format("{} && exec {} -q -n 2 --oversubscribe echo ran", mount, built("rlxrun"))});
    expect_same(result.out, "ran\nran\n", result.text());
  }
}

Test(rough, fifty_launches_side_by_side_all_work, .timeout = 120) {
  const auto result =
      run({"sh", "-c",
           "i=0; while [ $i -lt 50 ]; do " + built("rlxrun") +
               " -q -n 2 --oversubscribe true & pids=\"$pids $!\"; i=$((i+1)); done; "
               "bad=0; for p in $pids; do wait $p || bad=$((bad+1)); done; echo $bad failed"},
          {.timeout_ms = 110000});
  expect_same(result.out, "0 failed\n", result.text());
}

Test(rough, a_container_that_forbids_binding_gets_a_note, .timeout = 60) {
  if (!can_run({"strace", "-qq", "-o", "/dev/null", "true"})) cr_skip("strace is not installed");
  const auto result =
      run({"strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=sched_setaffinity:error=EPERM",
           built("rlxrun"), "-n", "1", "--bind-to", "core", "echo", "ran"});
  expect_same(result.out, "ran\n", result.text());
  cr_expect(result.err.find("cannot bind rank 0 to cpus") != std::string::npos, "%s",
            result.text().c_str());
}
