// SPDX-License-Identifier: MIT OR Apache-2.0
// What a job's ranks are given, and what rlxrun's exit code and message say of their end.
#include <criterion/criterion.h>
#include <sys/stat.h>

#include <fstream>

#include "test/launcher/fake_hosts.h"
#include "test/launcher/launch.h"

using namespace rlx::test;

Test(codes, are_those_of_the_first_failing_rank, .timeout = 120) {
  const struct {
    const char* words;
    const char* script;
    int code;
    const char* message;
  } table[] = {
      {"-n 2", "exit 0", 0, ""},
      {"-n 1", "exit 3", 3, "rank 0 (pid "},
      {"-n 4", "test $RANK = 3 && exit 255; exec sleep 100", 255, "rank 3 (pid "},
      {"-n 2", "test $RANK = 1 && kill -SEGV $$; exec sleep 100", 139, "signal 11"},
      {"-n 2", "test $RANK = 1 && kill -KILL $$; exec sleep 100", 137, "signal 9 (Killed)"},
      {"-n 2", "test $RANK = 0 && kill -TERM $$; exec sleep 100", 143, "signal 15"},
      {"-n 2", "trap '' TERM; test $RANK = 1 && exit 9; exec sleep 100", 9, "code 9"},
      {"-n 2 --continuous", "exit $RANK", 1, "rank 1 (pid "},
      {"-n 1 --timeout 0.3", "exec sleep 100", 124, "did not end within 0.3 s"},
      {"-n 1 --timeout 0.3 --timeout-exit-code 0", "exec sleep 100", 0, "did not end within"},
      {"-n 2 --timeout 1 --on-failure continue", "test $RANK = 0 && exit 3; exec sleep 100", 3,
       "did not end within 1 s"},
      {"-n 1 --timeout 1 --max-restarts 1000000", "exit 3", 124, "did not end within 1 s"},
      {"-n 1 --timeout 100 --timeout-exit-code 7", "exit 3", 3, "code 3"},
  };
  for (const auto& row : table) {
    const auto result = rlxrun_sh(row.words, row.script);
    cr_expect_eq(result.code, row.code, "%s: %s", row.script, result.text().c_str());
    cr_expect(holds(result.err, row.message) && result.err.empty() == !*row.message, "%s: %s",
              row.script, result.text().c_str());
    if (result.code != 0 && result.code != 124 && !holds(row.message, "within"))
      cr_expect_eq(lines_of(result.err).size(), 1u, "%s", result.text().c_str());
  }
  const auto silent = rlxrun_sh("-n 1 --timeout 0.3", "exec sleep 100");
  cr_expect(holds(silent.err, "rank 0 (pid ") && holds(silent.err, "has not called init"));
}

Test(programs, are_told_the_universe_that_was_asked_for) {
  const auto told = [](const char* usize) {
    return rlxrun({"--pmi1", "--usize", usize, "-n", "2", "bash", "-c",
                   "echo cmd=get_universe_size >&$PMI_FD; head -n 1 <&$PMI_FD"})
        .out;
  };
  expect_same(told("7"), "cmd=universe_size size=7\ncmd=universe_size size=7\n");
  expect_same(told("1"), "cmd=universe_size size=2\ncmd=universe_size size=2\n");  // itself
}

Test(codes, tell_programs_that_cannot_run, .timeout = 60) {
  const TempDir dir;
  std::ofstream(dir / "plain") << "#!/bin/sh\necho plain\n";
  std::ofstream(dir / "no-interpreter") << "#!/no/such/interpreter\n";
  std::ofstream(dir / "garbage") << "\1\2\3";
  chmod((dir / "no-interpreter").c_str(), 0755);
  chmod((dir / "garbage").c_str(), 0755);
  const struct {
    std::vector<std::string> arguments;
    int code;
    const char* message;
  } table[] = {
      {{"-n", "3", "no-such-program"}, 127, "command not found in PATH"},
      {{dir / "missing"}, 127, "No such file"},
      {{dir.path()}, 126, "is a directory"},
      {{dir / "plain"}, 126, "chmod +x"},
      {{dir / "no-interpreter"}, 127, "interpreter or loader"},
      {{dir / "garbage"}, 126, "#!"},
      {{"-n", "1", "true", ":", "-n", "1", "no-such-program"}, 127, "no-such-program"},
      {{"--wdir", dir / "missing", "true"}, 1, "missing"},
      {{"-n", "1", ""}, 2, "empty"},
      {{"-n", "2"}, 2, "no program"},
      {{}, 2, "no program"},
      {{"--host", "elsewhere.invalid", "true"}, 1, "cannot start on elsewhere.invalid: ssh"},
      {{"--host", "localhost:1", "-n", "2", "true"}, 2, "--oversubscribe"},
      {{"-n", "5000", "true"}, 2, "--oversubscribe"},
      {{"--stdin", "2", "-n", "2", "true"}, 2, "ranks 0 to 1"},
      {{"--nonsense", "true"}, 2, "unknown option"}};
  for (const auto& row : table) {
    const auto result = rlxrun(row.arguments);
    cr_expect_eq(result.code, row.code, "%s", result.text().c_str());
    cr_expect(holds(result.err, row.message), "want '%s': %s", row.message, result.text().c_str());
    const std::size_t table_lines = holds(row.message, "--oversubscribe") ? 2 : 0;  // of one host
    cr_expect_leq(lines_of(result.err).size(), 3 + table_lines, "%s", result.text().c_str());
  }
}

Test(ranks, get_their_arguments_and_place, .timeout = 60) {
  const std::vector<std::string> odd = {"a b", "c\"d", "$HOME", "", "line\nfeed", "é", "*", "\\"};
  std::vector<std::string> arguments = {
      "-n", "1", "sh", "-c", "for a; do printf '<%s>' \"$a\"; done", "sh"};
  arguments.insert(arguments.end(), odd.begin(), odd.end());
  std::string wanted;
  for (const auto& argument : odd) wanted += "<" + argument + ">";
  expect_same(rlxrun(arguments).out, wanted);

  const auto facts = rlxrun_sh(
      "-n 3 -x ADDED=x -x ^REMOVED --wdir /",
      "echo $RLX_RANK/$RLX_SIZE $RLX_LOCAL_RANK/$RLX_LOCAL_SIZE "
      "$OMPI_COMM_WORLD_RANK/$OMPI_COMM_WORLD_SIZE "
      "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR ${MASTER_PORT:+port} $PMIX_RANK "
      "[$ADDED$REMOVED$KEPT] $PWD",
      {.environment = {"REMOVED=r", "KEPT=k", "PMIX_RANK=77", "RLX_JOBID=old", "MASTER_ADDR=old"}});
  std::multiset<std::string> expected;
  for (const std::string r : {"0", "1", "2"})
    expected.insert(r + "/3 " + r + "/3 " + r + "/3 " + r + "/3 " + r + " 127.0.0.1 port " + r +
                    " [xk] /");
  cr_expect(lines_of(facts.out) == expected, "%s", facts.text().c_str());

  const auto mpmd = rlxrun(cut("-n 1 -x WHO=a printenv WHO : -n 2 -x WHO=b printenv WHO"));
  cr_expect_eq(mpmd.code, 0, "%s", mpmd.text().c_str());
  const std::multiset<std::string> who = {"a", "b", "b"};
  cr_expect(lines_of(mpmd.out) == who, "%s", mpmd.text().c_str());

  const std::string big(100000, 'v');
  const auto large = rlxrun_sh("-n 2", "echo ${#BIG}", {.environment = {"BIG=" + big}});
  cr_expect_eq(lines_of(large.out).count("100000"), 2u, "%s", large.text().c_str());
}

// Here they would see the task that rlxrun is, on other hosts the one that their daemon is.
Test(ranks, are_not_told_that_they_are_tasks_of_a_slurm_step, .timeout = 60) {
  const FakeHosts hosts("export SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_GTIDS=1 SLURM_NODEID=1");
  for (const auto& words : {std::string("-n 2"), hosts.options(2)}) {
    const CommandOptions options{.environment = {"SLURM_PROCID=0", "SLURM_LOCALID=0",
                                                 "SLURM_NODEID=0", "SLURM_GTIDS=0",
                                                 "SLURM_TASK_PID=7", "SLURM_JOB_NAME=a"}};
    const std::string script = "echo $(env | grep ^SLURM_ | sort)";
    const auto result = rlxrun_sh("--rm none " + words, script, options);
    expect_same(result.out, "SLURM_JOB_NAME=a\nSLURM_JOB_NAME=a\n", result.text());
    const auto chosen = rlxrun_sh("--rm none -x SLURM_PROCID " + words, script, options);
    expect_same(chosen.out, "SLURM_JOB_NAME=a SLURM_PROCID=0\nSLURM_JOB_NAME=a SLURM_PROCID=0\n",
                chosen.text());
  }
}

Test(ranks, keep_the_master_that_the_user_chose, .timeout = 60) {
  const std::string shows = "echo $MASTER_ADDR:$MASTER_PORT ${OMPI_UNIVERSE_SIZE-none}";
  const CommandOptions chosen = {.environment = {"MASTER_ADDR=there", "MASTER_PORT=77"}};
  expect_same(rlxrun_sh("-n 1", shows, chosen).out, "there:77 none\n");
  expect_same(rlxrun_sh("-n 1 -x MASTER_PORT=78", shows, chosen).out, "there:78 none\n");
  const auto nested = rlxrun_sh(
      "-n 1", built("rlxrun") + " -q -n 1 -x MASTER_PORT=78 sh -c '" + shows + "'", chosen);
  expect_same(nested.out, "127.0.0.1:78 none\n", nested.text());
}

Test(ranks, get_the_variables_of_a_file, .timeout = 60) {
  const TempDir dir;
  std::ofstream(dir / "env") << "# for all\n\nFIRST=a b=\"c\" $HOME\r\nSECOND=\n^GONE\nPATH\n";
  const auto result = rlxrun_sh("-n 1 -x GONE=1 --env-file " + (dir / "env"),
                                "echo \"$FIRST,${SECOND-none},${GONE-gone}\"");
  expect_same(result.out, "a b=\"c\" $HOME,,gone\n", result.text());
  std::ofstream(dir / "bad") << "A=1\n=2\n";
  const auto bad = rlxrun(cut("-n 1 --env-file " + (dir / "bad") + " true"));
  cr_expect(bad.code == 2 && holds(bad.err, "/bad:2: "), "%s", bad.text().c_str());
  const auto bare = rlxrun(cut("-n 1 -x ^* env"));
  cr_expect(!holds(bare.out, "\nPATH=") && holds(bare.out, "RLX_RANK=0"), "%s",
            bare.text().c_str());
}

Test(ranks, get_only_what_is_named_beside_none_in_any_order, .timeout = 60) {
  const struct {
    const char* words;
    const char* wanted;
  } table[] = {{"-x none -x FOO_A", "1"},           {"-x FOO_A -x none", "1"},
               {"-x none -x FOO_*", "1 2"},         {"-x FOO_* -x none", "1 2"},
               {"-x FOO_B=5 -x none", "5"},         {"-x none -x FOO_B=5 -x FOO_*", "1 5"},
               {"-x none -x FOO_* -x ^FOO_A", "2"}, {"-x none -x ^FOO_A -x FOO_*", "2"},
               {"-x ^FOO_A -x FOO_A", "1 2"},       {"-x none", ""}};
  const CommandOptions options{.environment = {"FOO_A=1", "FOO_B=2"}};
  for (const auto& row : table) {
    auto words = cut(std::string("-n 1 ") + row.words);
    for (const char* word : {"sh", "-c", "echo $FOO_A $FOO_B"}) words.emplace_back(word);
    const auto result = rlxrun(words, options);
    expect_same(result.out, std::string(row.wanted) + "\n", row.words + result.text());
  }
}

Test(ranks, of_which_a_variable_was_asked_that_is_not_there_start_with_a_note, .timeout = 60) {
  for (const std::string name : {"NOTSET", "NOTSET*"}) {
    const auto told = run({built("rlxrun"), "-n", "1", "-x", name, "true"});
    expect_same(told.err, "rlxrun: -x " + name + ": no such variable here\n");
    cr_expect_eq(told.code, 0);
    expect_same(rlxrun({"-n", "1", "-x", name, "true"}).err, "");  // it has -q
  }
}

Test(ranks, stay_within_the_cpus_the_launcher_may_use, .timeout = 60) {
  const auto one = run({"taskset", "-c", "0", built("rlxrun"), "-n", "2", "--bind-to", "core", "sh",
                        "-c", "taskset -pc $$ | sed 's/.*: //'"});
  expect_same(one.out, "0\n0\n", one.text());
  const auto all = rlxrun(cut("-n 1 nproc"));
  expect_same(all.out, run({"nproc"}).out);
  const auto none = rlxrun(cut("-n 1 --bind-to none nproc"));
  expect_same(none.out, all.out);
  expect_same(rlxrun(cut("-n 1 --cpu-list 0 --bind-to none nproc")).out, "1\n");
  expect_same(rlxrun(cut("-n 3 --cpu-list 0 --oversubscribe nproc")).out, "1\n1\n1\n");
  const auto report = rlxrun(cut("-n 1 --report-bindings --bind-to core true"));
  cr_expect(holds(report.err, "rank 0 on ") && holds(report.err, "(1 core, numa 0"), "%s",
            report.text().c_str());
}

Test(ranks, get_gpus_of_the_lists_on_their_own_host, .timeout = 60) {
  const FakeHosts hosts("export CUDA_VISIBLE_DEVICES=4,5,6");
  const std::string two = "-n 2 --oversubscribe ";
  const struct {
    std::string options;
    std::multiset<std::string> wanted;  // of each rank the list it sees, and its own among them
  } table[] = {{two + "--gpus-per-rank 1", {"0: 2, 0", "1: 3, 0"}},
               {two, {"0: 2,3, 0", "1: 2,3, 1"}},
               {two + "-x CUDA_VISIBLE_DEVICES=9", {"0: 9, 0", "1: 9, 1"}},
               {hosts.options(2) + " --gpus-per-rank 2", {"0: 4,5, 0", "1: 4,5, 0"}}};
  CommandOptions options;
  options.environment = {"CUDA_VISIBLE_DEVICES=2,3"};
  for (const auto& row : table) {
    const auto job =
        rlxrun_sh(row.options, "echo $RLX_RANK: $CUDA_VISIBLE_DEVICES, $RLX_GPU", options);
    cr_expect(lines_of(job.out) == row.wanted, "%s: %s", row.options.c_str(), job.text().c_str());
  }
  options.environment = {"CUDA_VISIBLE_DEVICES="};
  const auto none = rlxrun_sh("-n 1 --gpus-per-rank 1", "true", options);
  cr_expect(none.code == 2 && holds(none.err, "has 0 that may be used"), "%s", none.text().c_str());
}

Test(plans, are_shown_without_starting_anything, .timeout = 60) {
  const TempDir dir;
  const auto result =
      rlxrun({"--dry-run", "--display", "alloc", "-n", "2", "touch", dir / "started"});
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  cr_expect(holds(result.out, "rank 1 on ") && holds(result.out, " slot"), "%s",
            result.text().c_str());
  struct stat info {};
  cr_expect_neq(stat((dir / "started").c_str(), &info), 0);
  const std::string noted = " --mca a b -x NO_SUCH_VARIABLE --cpu-list 0,4000 -n 1 true";
  const auto would = run(cut(built("rlxrun") + " --dry-run" + noted));
  expect_same(would.err, run(cut(built("rlxrun") + noted)).err, would.text());
  for (const char* note : {"ignored", "names cpus that", "no such variable"})
    cr_expect(holds(would.err, note), "%s: %s", note, would.text().c_str());
  std::ofstream(dir / "bad.xml") << "<topology";
  cr_expect_eq(rlxrun({"--dry-run", "--topo-file", dir / "bad.xml", "true"}).code, 1);
  for (const char* option : {"--help", "--version", "--man", "--completion"}) {
    const auto text = rlxrun({option});
    cr_expect_eq(text.code, 0);
    cr_expect(holds(text.out, "rlxrun") && text.err.empty(), "%s", option);
  }
}
