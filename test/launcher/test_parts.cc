// SPDX-License-Identifier: MIT OR Apache-2.0
// The launcher's parts that start nothing: options, environment, lines, outputs, outcome.
#include <criterion/criterion.h>
#include <signal.h>

#include <fstream>
#include <map>

#include "launcher/command_line.h"
#include "launcher/environment.h"
#include "launcher/help.h"
#include "launcher/hosts.h"
#include "launcher/lines.h"
#include "launcher/option_table.h"
#include "launcher/option_values.h"
#include "launcher/outcome.h"
#include "launcher/terminal.h"
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
               {"-v -quiet ./a", "--quiet contradicts --verbose"},
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

Test(hosts, know_this_machine_by_all_its_names) {
  for (const char* name : {"localhost", "box", "box.example.org", "127.0.0.1", "127.0.1.1", "::1"})
    cr_expect(is_this_host(name, "box"), "%s", name);
  cr_expect(is_this_host("box", "box.example.org"));
  for (const char* name : {"boxer", "other", "example.org", "10.255.255.254"})
    cr_expect(!is_this_host(name, "box"), "%s", name);
}

// Only the word alone is "nothing": a variable may have that name.
Test(environment, passes_nothing_by_the_word_none_alone) {
  const auto all = read_environment_edit("none");
  cr_expect(all->kind == EnvironmentEdit::Kind::kUnset);
  expect_same(all->pattern, "*");
  const auto set = read_environment_edit("none=1");
  cr_expect(set->kind == EnvironmentEdit::Kind::kSet);
  expect_same(set->pattern, "none");
  expect_same(set->value, "1");
  const auto unset = read_environment_edit("^none");
  cr_expect(unset->kind == EnvironmentEdit::Kind::kUnset);
  expect_same(unset->pattern, "none");
}

Test(environment, is_edited_by_name_and_pattern) {
  Environment environment({"A=1", "AB=2", "PATH=/bin", "F=a=b"});
  const auto missing = apply_edits(environment, {{EnvironmentEdit::Kind::kSet, "NEW", "x y"},
                                                 {EnvironmentEdit::Kind::kUnset, "A*", ""},
                                                 {EnvironmentEdit::Kind::kPass, "P?TH", ""},
                                                 {EnvironmentEdit::Kind::kPass, "AB", ""},
                                                 {EnvironmentEdit::Kind::kPass, "NOT*", ""}});
  expect_same(environment.get("NEW")->c_str(), "x y");
  cr_expect(!environment.get("A"));
  expect_same(environment.get("AB").value_or(""), "2");  // left out, then asked for by name
  expect_same(environment.get("F")->c_str(), "a=b");
  cr_assert_eq(missing.size(), 1u);
  expect_same(missing[0], "NOT*");
  Environment users({"MASTER_PORT=5", "OMP_NUM_THREADS=3"});
  forget_outer_job(users);
  add_master(users, "127.0.0.1", 9);
  RankFacts facts;
  facts.threads = 8;
  add_rank_variables(users, facts);
  expect_same(users.get("MASTER_PORT")->c_str(), "5");
  expect_same(users.get("OMP_NUM_THREADS")->c_str(), "3");
  forget_outer_job(users);  // now it has those of an rlxrun around us
  add_master(users, "127.0.0.1", 9);
  expect_same(users.get("MASTER_PORT")->c_str(), "9");
}

Test(lines, are_whole_however_the_bytes_arrive) {
  const std::string text = "one\ntwo two\n\nthree\r\nend";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    LineAssembler lines(false, 100);
    std::string seen;
    for (std::size_t i = 0; i < text.size(); i += step)
      for (const auto& piece : lines.take(std::string_view(text).substr(i, step))) {
        cr_expect(piece.whole && piece.bytes.ends_with('\n'));
        seen += piece.bytes;
      }
    expect_same((seen + lines.flush()), text);
  }
  LineAssembler small(false, 4);
  cr_expect_eq(small.take("abc").size(), 0u);
  const auto pieces = small.take("def");
  cr_assert_eq(pieces.size(), 1u);
  cr_expect(!pieces[0].whole);
  // Not within a character of UTF-8; of what is none, anywhere.
  const struct {
    const char *bytes, *wanted;
  } cuts[] = {{"abcd\xc3", "abcd"},
              {"abc\xe2\x82", "abc"},
              {"ab\xf0\x9f\x98", "ab"},
              {"abc\xc3\xa9", "abc\xc3\xa9"},
              {"ab\xe2\x82\xac", "ab\xe2\x82\xac"},
              {"a\x80\x80\x80\x80", "a\x80\x80\x80\x80"},
              {"abcd\xff", "abcd"}};
  for (const auto& row : cuts) {
    LineAssembler cut(false, 4);
    const auto piece = cut.take(row.bytes);
    cr_assert_eq(piece.size(), 1u);
    expect_same(piece[0].bytes, row.wanted);
    expect_same(piece[0].bytes + cut.flush(), row.bytes);
  }
  LineAssembler bar(true, 100);
  cr_expect_eq(bar.take("10%\r20%\r30").size(), 1u);
  expect_same(bar.flush(), "30");
  expect_same(with_prefix("a\nb\n", "> ", true), "> a\n> b\n");
  expect_same(with_prefix("a\nb", "> ", false), "a\n> b");
}

Test(terminal, never_mixes_two_ranks_in_a_line) {
  std::string out;
  std::map<Terminal::Key, std::size_t> taken;
  Terminal terminal(
      [&](std::string bytes, Terminal::Key key, std::size_t n) {
        out += bytes;
        taken[key] += n;
      },
      [](Terminal::Key key) { return "[" + std::to_string(key) + "] "; });
  terminal.write(1, {"long", false});
  terminal.write(2, {"two\n", true});
  terminal.write(2, {"half", false});
  cr_expect(terminal.has_held());
  terminal.write(1, {" line\n", true});  // ends rank 1's line: rank 2 follows and owns the output
  expect_same(out, "[1] long line\n[2] two\n[2] half");
  terminal.write(3, {"three\n", true});
  terminal.close(2);
  expect_same(out, "[1] long line\n[2] two\n[2] half\n[3] three\n");
  terminal.write(4, {"silent", false});
  terminal.write(5, {"five\n", true});
  terminal.owner_is_silent();
  terminal.write(4, {" rest\n", true});
  expect_same(out.substr(out.find("[4]")), "[4] silent\n[5] five\n[4]  rest\n");
  cr_expect(!terminal.has_held());
  cr_expect_eq(taken[2], 8u);
  cr_expect_eq(taken[4], 12u);
}

Test(terminal, passes_one_stream_through_at_once_and_as_it_is) {
  std::string out;
  Terminal terminal([&](const std::string& bytes, Terminal::Key, std::size_t) { out += bytes; },
                    [](Terminal::Key key) { return "[" + std::to_string(key) + "] "; });
  terminal.pass_through(1, true);
  terminal.write(2, {"long", false});
  terminal.write(1, {"$ ", false});  // in the middle of another's line
  terminal.write(2, {" line\n", true});
  terminal.write(1, {"\x1b[1mx", false});
  expect_same(out, "[2] long$ \x1b[1mx");
  terminal.write(1, {"\r\n", true});  // a line of its own ends
  expect_same(out, "[2] long$ \x1b[1mx\r\n[2]  line\r\n");
  terminal.write(1, {"$ ", false});
  terminal.write(3, {"a\nb\n", true});
  cr_expect(terminal.has_held());
  terminal.owner_is_silent();
  expect_same(out.substr(out.find("line")), "line\r\n$ \r\n[3] a\r\n[3] b\r\n");
}

Test(outcome, is_that_of_the_first_failure) {
  const RankName rank{{0, 3}, 17, "box"};
  const auto exited = [](int code) { return code << 8; };
  const struct {
    int status;
    pmix::RankState state;
    int code;
    const char* text;
  } table[] = {{exited(0), {}, 0, ""},
               {exited(0), {true, true}, 0, ""},
               {exited(0), {true, false}, 1, "without finalizing"},
               {exited(5), {true, true}, 5, "rank 3 (pid 17 on box) exited with code 5"},
               {exited(255), {}, 255, "code 255"},
               {SIGKILL, {}, 137, "signal 9"},
               {SIGSEGV | 0x80, {}, 139, "core dumped"}};
  for (const auto& row : table) {
    Outcome outcome;
    const std::string text = outcome.rank_exited(rank, row.status, row.state);
    cr_expect_eq(outcome.exit_code(), row.code);
    cr_expect(holds(text, row.text) && text.empty() == !*row.text, "%s", text.c_str());
    if (row.code == 0) continue;
    cr_expect(outcome.rank_exited(rank, exited(9), {}).empty(), "a second failure was told");
    cr_expect_eq(outcome.exit_code(), row.code);
  }
  const std::map<int, int> aborts = {{0, 1}, {7, 7}, {256, 1}, {-1, 255}};
  for (const auto& [status, code] : aborts) {
    Outcome outcome;
    outcome.rank_aborted(rank, status, "why");
    cr_expect_eq(outcome.exit_code(), code);
  }
  Outcome asked;
  asked.interrupted(SIGTERM);
  cr_expect_eq(asked.exit_code(), 143);
  cr_expect_eq(asked.signal_number(), SIGTERM);
}
