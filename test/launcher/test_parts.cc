// SPDX-License-Identifier: MIT OR Apache-2.0
// The launcher's parts that start nothing: environment, lines, outputs, outcome.
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
