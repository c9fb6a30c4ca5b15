// SPDX-License-Identifier: MIT OR Apache-2.0
// Command lines: what is understood, refused, suggested and documented.
#include <criterion/criterion.h>

#include <fstream>
#include <map>

#include "launcher/command_line.h"
#include "launcher/help.h"
#include "launcher/option_table.h"
#include "launcher/option_values.h"
#include "test/launcher/launch.h"

using namespace rlx;
using namespace rlx::launcher;
using rlx::test::cut;
using rlx::test::expect_same;
using rlx::test::holds;

Test(options, understand_what_users_of_other_launchers_type) {
  const char* lines[] = {"-np 4 ./a",
                         "--np 4 ./a",
                         "-n 4 ./a",
                         "-c 4 ./a",
                         "--np=4 ./a",
                         "--allow-run-as-root --oversubscribe -np 2 ./a",
                         "--mca btl tcp,self -np 2 ./a",
                         "-mca pml ob1 --mca btl ^openib -x LD_LIBRARY_PATH -x A=b ./a",
                         "--bind-to none --map-by slot ./a",
                         "-bind-to core -map-by socket ./a",
                         "--map-by ppr:2:socket:PE=1 ./a",
                         "--map-by :PE=2 ./a",
                         "--rank-by fill ./a",
                         "--report-bindings --tag-output --timestamp-output ./a",
                         "--tag-output=full ./a",
                         "-genv I_MPI_DEBUG 5 -ppn 2 -n 2 ./a",
                         "-genvall -l -n 2 ./a",
                         "--host localhost:4 ./a",
                         "-H localhost,localhost ./a",
                         "-hosts localhost -n 1 ./a",
                         "--wdir /tmp ./a",
                         "-wd /tmp ./a",
                         "--output-filename out ./a",
                         "--output-dir out --tee ./a",
                         "--output file=x.%r:nocopy ./a",
                         "--merge-stderr-to-stdout ./a",
                         "--stdin all ./a",
                         "-s none ./a",
                         "--timeout 1:30 ./a",
                         "--prtemca a b --omca c d --pmixmca e f ./a",
                         "--display map,bind ./a",
                         "--display-map ./a",
                         "--nooversubscribe --report-state-on-timeout ./a",
                         "-iface eth0 -launcher ssh ./a",
                         "--use-hwthread-cpus ./a",
                         "-n 1 ./a : -n 2 -x B=1 --wdir / ./b -n 3",
                         "--bynode --bind-to-socket -np 2 ./a",
                         "-npersocket 2 --cpus-per-proc 2 ./a",
                         "-rr -n 2 ./a",
                         "--output tag-detailed,timestamp,dir=out:nocopy ./a",
                         "-genvexcl A,B -membind local -ordered-output ./a",
                         "--pset x --initial-errhandler abort --stream-buffering 0 ./a",
                         "-hostos lin -topolib hwloc -silent-abort -IB ./a : -OFI ./b",
                         "--do-not-resolve --index-argv-by-rank -disable-hostname-propagation ./a",
                         "--display map-devel --with-ft ulfm ./a",
                         "--map-by numa:NOINHERIT:CORECPUS ./a",
                         "-bootstrap-exec ssh -branch-count 4 -usize SYSTEM -rmk user ./a",
                         "-gpus-per-proc AUTO ./a",
                         "-genv X=1 -env Y=2 ./a",
                         "--x A=1 -N 2 --bycore ./a",
                         "-genvnone ./a : -envall ./b",
                         "--output-json --output-dir out --tee ./a",
                         "--launcher ssh --launcher slurm -q -q ./a",
                         "-v --dry-run -- -odd"};
  for (const char* line : lines) {
    const auto parsed = parse_command_line(cut(line));
    cr_expect(parsed.has_value(), "%s: %s", line, parsed ? "" : parsed.error().text.c_str());
    const char program = parsed ? parsed->apps[0].argv[0][0] : '.';  // not the value of an option
    cr_expect(program == '.' || program == '-', "%s: %s", line, parsed->apps[0].argv[0].c_str());
  }
  const auto mpmd = *parse_command_line(cut("-n 1 ./a x : -n 2 ./b -n 3"));
  cr_assert_eq(mpmd.apps.size(), 2u);
  cr_expect_eq(mpmd.apps[1].n_ranks, 2);
  cr_expect_eq(mpmd.apps[1].argv.size(), 3u);  // what follows the program is the program's
  const auto ignored = *parse_command_line(cut("--mca a b --allow-run-as-root -np 1 ./a"));
  cr_assert_eq(ignored.ignored.size(), 1u);
  expect_same(ignored.ignored[0], "--mca a b");
  const auto ordered = *parse_command_line(cut("-order-nodes UP ./a b"));
  expect_same(ordered.ignored[0], "-order-nodes UP");
  expect_same(ordered.apps[0].argv[0], "./a");
}

Test(options, refuse_what_is_wrong_and_say_what_was_wanted) {
  const struct {
    const char* line;
    const char* wanted;
  } table[] = {{"", "no program"},
               {"-n 2", "no program"},
               {"-n", "needs N"},
               {"-n x ./a", "'x' is not a whole number"},
               {"-n 0 ./a", "at least 1"},
               {"-n -3 ./a", "at least 1"},
               {"-n 99999999999 ./a", "too large: want at most 1048576"},
               {"-np 2000000000 ./a", "'2000000000' is too large: want at most 1048576"},
               {"-ppn 70000 ./a", "up to 65536"},
               {"--map-by ppr:70000:core ./a", "at most 65536"},
               {"--bnd-to core ./a", "did you mean --bind-to?"},
               {"--tagoutput ./a", "did you mean --tag-output?"},
               {"-np 2 --oversubscrib ./a", "(word 3, before the program)"},
               {"--bind-to chair ./a", "slice, core"},
               {"-bind-to numa:2 ./a", "'2' is not a modifier (N behind core or hwt"},
               {"-bind-to core:0 ./a", "'0' is not a modifier"},
               {"--bind-to core:report ./a", "'report' is not a modifier"},
               {"-bind-to user:0+2,1 ./a", "--rankfile FILE"},
               {"--map-by ppr:2 ./a", "ppr:2:numa"},
               {"--map-by moon ./a", "package, numa"},
               {"--map-by slot:pe=0 ./a", "at least 1"},
               {"--map-by ppr:2147483647:numa ./a", "too large: want at most 65536"},
               {"--npersocket 65537 ./a", "too large: want at most 65536"},
               {"--map-by :pe=9999999999 ./a", "too large: want at most 65536"},
               {"--rank-by random ./a", "slot, node, fill"},
               {"--rank-by core ./a", "core: leave it out"},
               {"--rank-by span ./a", "--map-by OBJECT:span"},
               {"--map-by node:NOLOCAL ./a", "nolocal: name the hosts without"},
               {"--map-by core:HWTCPUS ./a", "--bind-to hwt"},
               {"--map-by slot:INHERIT ./a", "leave it out"},
               {"--map-by pe-list=0,2:ordered ./a", "--cpu-list LIST"},
               {"--nolocal ./a", "--host LIST"},
               {"--rto continuous ./a", "--on-failure"},
               {"--add-hostfile f ./a", "all hosts of a job"},
               {"--default-hostfile f ./a", "RLX_HOSTFILE"},
               {"-soft 2:4 ./a", "-n N"},
               {"--exec-agent x ./a", "in front of the program"},
               {"-check-mpi ./a", "in front of the program"},
               {"-genvappend A b ./a", "-x \"NAME=$NAME:MORE\""},
               {"-tune ./a", "leave it out"},
               {"-usize INFINITE ./a", "or SYSTEM"},
               {"--timeout soon ./a", "1:30"},
               {"--timeout -1 ./a", "1:30"},
               {"--stdin nobody ./a", "all, none"},
               {"--tag-output=colour ./a", "rank, host, full"},
               {"--display stars ./a", "map, bind"},
               {"--cpu-list 3-1 ./a", "0-3,8"},
               {"--oversubscribe=yes ./a", "takes no value"},
               {"-x =1 ./a", "'=1'"},
               {"-x P*=1 ./a", "'P*' is a pattern, which takes no value"},
               {"--rm pbspro ./a", "slurm, pbs, lsf"},
               {"./a : --timeout 3 ./b", "before the first program"},
               {"./a :", "beside ':'"},
               {": ./a", "beside ':'"},
               {"--output colour ./a", "tag-detailed"},
               {"--app /no/such/file", "cannot open /no/such/file"},
               {"--app /dev/null ./a", "beside --app"},
               {"-gdb -n 2 ./a", "MPIR"},
               {"--preload-binary ./a", "every host"},
               {"--usize 0 ./a", "at least 1"},
               {"--output-json --tag-output ./a", "leave out --tag-output"},
               {"--output-json --pty ./a", "--pty"},
               {"--output-json --output-dir out ./a", "add --tee"},
               {"--timeout-exit-code 7 ./a", "needs --timeout"},
               {"--stacks ./a", "--stacks needs --timeout"},
               {"--status ./a", "leave out './a'"},
               {"--launcher slurm --rsh-agent ssh ./a", "contradicts --launch-agent"},
               {"./a : -envall -envnone ./b", "-genvall contradicts -genvnone"},
               {"-genv =1 ./a", "'=1' is not a variable"},
               {"-n 4 --app f", "-n 4 beside --app f: want -n in its lines"},
               {"--timeout 1 --timeout-exit-code 256 ./a", "at most 255"},
               {"--heartbeat 0.001 ./a", "or 0 for none"},
               {"-outfile-pattern x ./a", "--output-file PATTERN"},
               {"--output-file x ./a", "want %r or %h"},
               {"--output-file x.%n ./a", "want %r or %h"},
               {"--output-file %r.%q ./a", "'%q' is not one of %r"},
               {"--output-file %r% ./a", "'%' is not one of %r"},
               {"-tmpdir /x ./a", "RLX_TMPDIR"},
               {"--nnodes 2 ./a", "--hostfile"},
               {"--tee ./a", "needs --output-dir"},
               {"--output-dir a --output-file %r ./a", "leave one out"},
               {"--output file=%r --output-filename a ./a", "leave one out"},
               {"--output-mode append ./a", "needs --output-dir"},
               {"--output-mode often ./a", "append or truncate"},
               {"--int-signal 2 ./a", "TERM or INT"},
               {"--json ./a", "--dry-run"},
               {"--host= ./a", "no host is named"},
               {"--master_port 1 ./a", "MASTER_PORT"}};
  for (const auto& row : table) {
    const auto parsed = parse_command_line(cut(row.line));
    cr_expect(!parsed, "%s was accepted", row.line);
    if (!parsed)
      cr_expect(holds(parsed.error().text, row.wanted), "%s: %s", row.line,
                parsed.error().text.c_str());
  }
  cr_expect(!parse_command_line({"-n", "1", ""}), "an empty program name was accepted");
}

Test(options, may_come_from_a_file_of_programs) {
  const rlx::test::TempDir dir;
  std::ofstream(dir / "apps") << "# two programs\n-n 1 ./a 'b c' \\# \"\"\n\n-n 2 -x A=1 ./d :\n";
  const auto line = parse_command_line({"--tag-output", "--app", dir / "apps"});
  cr_assert(line.has_value(), "%s", line ? "" : line.error().text.c_str());
  cr_assert_eq(line->apps.size(), 2u);
  const std::vector<std::string> words = {"./a", "b c", "#", ""};
  cr_expect(line->apps[0].argv == words);
  cr_expect_eq(line->apps[1].n_ranks, 2);
  const auto inherited =
      parse_command_line({"-x", "A=0", "--wdir", "/usr", "--host", "h", "--app", dir / "apps"});
  cr_assert(inherited && inherited->apps.size() == 2);
  for (const auto& app : inherited->apps) {
    expect_same(app.wdir, "/usr");
    expect_same(app.environment[0].value, "0");
    expect_same(app.environment.back().value, app.argv[0] == "./d" ? "1" : "0");
  }
  expect_same(inherited->apps[0].hosts + inherited->apps[1].hosts, "h");
  std::ofstream(dir / "open") << "-n 1 ./a\n./b 'c\n";
  const auto open = parse_command_line({"--app", dir / "open"});
  cr_expect(!open && holds(open.error().text, "open:2: a quote is not closed"));
  const struct {
    const char *text, *wanted;
  } wrong[] = {{"./a\n\n-n x ./b\n", "wrong:3: option -n: "},
               {"./a\n-n 1 --nonsense 1 ./b\n./c\n", "wrong:2: unknown option '--nonsense'"},
               {"# none\n./a\n-n 1\n./b\n", "wrong:3: there is no program in this line"},
               {"./a\n-n 1\n", "wrong:2: there is no program in this line"},
               {"-n 1\n", "wrong:1: there is no program in this line"},
               {"./a\n-n\n./b\n", "wrong:2: option -n needs "},
               {"./a\n--tag-output ./b\n", "wrong:2: option --tag-output is for the whole job"},
               {"--nonsense ./a\n", "wrong:1: unknown option"}};
  for (const auto& row : wrong) {
    std::ofstream(dir / "wrong") << row.text;
    const auto parsed = parse_command_line({"--app", dir / "wrong"});
    cr_expect(!parsed && holds(parsed.error().text, row.wanted), "%s: %s", row.text,
              parsed ? "" : parsed.error().text.c_str());
  }
}

Test(options, are_each_spelled_once_and_documented) {
  std::map<std::string, int> seen;
  for (const auto& option : options()) {
    for (const auto& spelling : spellings(option))
      cr_expect_eq(++seen[spelling], 1, "%s", spelling.c_str());
    if (option.group == Group::kForeign) continue;
    const std::string name = spellings(option)[0];
    cr_expect(holds(help_text(), name) && holds(bash_completion(), name), "%s", name.c_str());
  }
  for (const char* code : {"124", "126", "127", "128+S", "129, 130, 143"})
    cr_expect(holds(help_text(), code), "%s", code);
  cr_expect(holds(man_page(), ".SH EXIT STATUS"));
  cr_expect(holds(help_text(), "rank.0000.out"));
}

Test(options, read_times_in_the_usual_forms) {
  const std::map<std::string, double> table = {{"90", 90},   {"1.5", 1.5}, {"10m", 600},
                                               {"2h", 7200}, {"1:30", 90}, {"1:00:00", 3600}};
  for (const auto& [word, seconds] : table)
    cr_expect_eq(*read_seconds(word), seconds, "%s", word.c_str());
}
