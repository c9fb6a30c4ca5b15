// SPDX-License-Identifier: MIT OR Apache-2.0
// Output in whole lines, input with flow control, bounded memory.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "test/launcher/launch.h"

using namespace rlx::test;

namespace {

std::string content(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Kilobytes of memory a process has had at most.
long peak_kb(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return atol(line.c_str() + 6);
  return 0;
}

}  // namespace

Test(output, of_eight_ranks_comes_in_whole_ordered_lines, .timeout = 120) {
  const std::string script =
      "awk -v r=$RANK 'BEGIN { for (i = 0; i < 10000; i++) printf \"%d %d "
      "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\\n\", r, i "
      "}'";
  const auto result = rlxrun_sh("-n 8 --oversubscribe", script);
  cr_assert_eq(result.code, 0, "%s", result.text().c_str());
  std::map<int, int> next;
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    int rank = -1, index = -1, end = 0;
    cr_assert_eq(sscanf(line.c_str(), "%d %d %n", &rank, &index, &end), 2, "%s", line.c_str());
    cr_assert(line.substr(end) == std::string(80, 'x'), "%s", line.c_str());
    cr_assert_eq(index, next[rank]++, "rank %d lost its order", rank);
  }
  cr_expect_eq(next.size(), 8u);
  for (const auto& [rank, count] : next) cr_expect_eq(count, 10000, "rank %d", rank);
}

Test(output, keeps_pieces_of_lines_together, .timeout = 60) {
  expect_same(rlxrun_sh("-n 2 --oversubscribe", "printf x; sleep 0.1; printf 'y\\n'").out,
              "xy\nxy\n");
  expect_same(rlxrun_sh("-n 1", "printf end").out, "end");
  expect_same(rlxrun_sh("-n 2 --oversubscribe", "printf end").out, "end\nend");
  // Lines far longer than we keep back, of several ranks at once.
  const auto longest =
      rlxrun_sh("-n 3 --oversubscribe", "head -c 1000000 /dev/zero | tr '\\0' $RANK; echo");
  std::string wanted;
  std::map<char, int> seen;
  std::istringstream lines(longest.out);
  for (std::string line; std::getline(lines, line);) {
    cr_expect_eq(line.size(), 1000000u);
    cr_expect_eq(line.find_first_not_of(line[0]), std::string::npos);
    ++seen[line[0]];
  }
  cr_expect_eq(seen.size(), 3u);
  const auto last_words = rlxrun_sh("-n 1", "echo out; echo err >&2; kill -KILL $$");
  expect_same(last_words.out, "out\n");
  cr_expect_eq(last_words.err.find("err\nrlxrun: rank 0"), 0u, "%s", last_words.text().c_str());
}

Test(output, is_tagged_stamped_merged_and_filed_as_asked, .timeout = 60) {
  const std::string both = "echo out$RANK; echo err$RANK >&2";
  const auto tagged = rlxrun_sh("-n 1 --tag-output", both);
  expect_same(tagged.out, "[0] out0\n");
  expect_same(tagged.err, "[0]! err0\n");
  const auto full = rlxrun_sh("-n 1 --tag-output=full --timestamp-output", "echo out");
  int year = 0, ms = 0, pid = 0;
  cr_expect_eq(
      sscanf(full.out.c_str(), "%d-%*d-%*dT%*d:%*d:%*d.%d [0@%*[^:]:%d] out", &year, &ms, &pid), 3,
      "%s", full.text().c_str());
  expect_same(rlxrun_sh("-n 1 --merge-stderr", "echo out; echo err >&2").out, "out\nerr\n");
  const TempDir dir;
  const auto filed =
      rlxrun({"-n", "2", "--oversubscribe", "--output-dir", dir / "deep/logs", "sh", "-c", both});
  cr_expect(filed.out.empty() && filed.err.empty(), "%s", filed.text().c_str());
  expect_same(content(dir / "deep/logs/rank.0001.out"), "out1\n");
  expect_same(content(dir / "deep/logs/rank.0000.err"), "err0\n");
  for (const char* mode : {"append", "truncate"}) {
    rlxrun({"-n", "1", "--output-dir", dir / "deep/logs", "--output-mode", mode, "echo", "more"});
    expect_same(content(dir / "deep/logs/rank.0000.out"),
                mode[0] == 'a' ? "out0\nmore\n" : "more\n");
  }
  rlxrun({"-n", "1", "--max-restarts", "1", "--output-dir", dir / "again", "sh", "-c",
          "echo attempt $RLX_RESTART_COUNT; exit 3"});
  expect_same(content(dir / "again/rank.0000.out"), "attempt 0\nattempt 1\n");
  const auto teed = rlxrun({"-n", "1", "--output-dir", dir / "tee", "--tee", "sh", "-c", both});
  expect_same(teed.out, "out0\n");
  expect_same(content(dir / "tee/rank.0000.out"), "out0\n");
}

Test(output, goes_to_files_named_by_a_pattern, .timeout = 60) {
  const TempDir dir;
  const auto write = [&](const char* pattern, const std::string& script) {
    const auto result = rlxrun({"-n", "2", "--oversubscribe", "--host", "localhost:2",
                                "--output-file", dir / pattern, "sh", "-c", script});
    cr_expect(result.code == 0 && result.out.empty() && result.err.empty(), "%s",
              result.text().c_str());
  };
  write("a/%r.%h.%%r", "echo out$RANK; sleep 0.05; echo err$RANK >&2");
  expect_same(content(dir / "a/0000.localhost.%r"), "out0\nerr0\n");
  expect_same(content(dir / "a/0001.localhost.%r"), "out1\nerr1\n");
  write("%s-%r", "echo out$RANK; echo err$RANK >&2");
  expect_same(content(dir / "out-0001"), "out1\n");
  expect_same(content(dir / "err-0001"), "err1\n");
  // One that is in the middle of a line gets the line ended for it.
  write("all.%h", "printf %065600d 0; sleep 0.3; echo; test $RANK = 0 || echo end");
  const auto lines = rlx::test::lines_of(content(dir / "all.localhost"));
  for (const auto& line : lines)
    cr_expect(line == "end" || line.size() <= 65600, "%s", line.c_str());
  cr_expect(lines.contains("end"));
}

Test(output, goes_to_no_file_that_would_block, .timeout = 60) {
  const TempDir dir;
  const std::string fifo = dir / "rank.0000.out",
                    refusal = "cannot write " + fifo + ": want a file or a character device";
  const std::string job = built("rlxrun") + " -n 1 --output-dir " + dir.path() + " echo lost";
  const std::string readers[] = {"", "exec 3<>" + fifo + "; "};  // none, and one that is there
  for (const auto& reader : readers) {
    const auto result =
        run({"sh", "-c", "rm -f " + fifo + "; mkfifo " + fifo + "; " + reader + job},
            {.timeout_ms = 20000});
    cr_expect(result.code == 1 && count(result.err, refusal) == 1, "%s", result.text().c_str());
  }
}

// The job goes on, and a rank that fails decides what it ends with.
Test(output, that_a_full_disk_loses_is_told_once_a_file, .timeout = 60) {
  const TempDir dir;
  for (const char* file : {"rank.0000.out", "rank.0001.err"})
    std::filesystem::create_symlink("/dev/full", dir / file);
  for (const int code : {0, 3}) {
    const auto result = rlxrun({"-n", "2", "--oversubscribe", "--on-failure", "notify",
                                "--output-dir", dir.path(), "sh", "-c",
                                fmt::format("for i in 1 2 3; do echo x; echo y >&2; sleep 0.01; "
                                            "done; echo end; exit {}",
                                            code)});
    cr_expect_eq(result.code, code == 0 ? 1 : code, "%s", result.text().c_str());
    for (const char* part : {"rlxrun: output of rank 0 (pid ", "/rank.0000.out: No space left",
                             "rlxrun: output of rank 1 (pid ", "/rank.0001.err: No space left"})
      cr_expect_eq(count(result.err, part), 1, "%s: %s", part, result.text().c_str());
    expect_same(content(dir / "rank.0001.out"), "x\nx\nx\nend\n");
  }
  for (const char* lost : {">/dev/full echo x", "2>/dev/full sh -c 'echo x >&2'"}) {
    const auto result = run({"sh", "-c", built("rlxrun") + " -n 1 " + lost});
    cr_expect(
        result.code == 1 &&
            count(result.err, "cannot write standard output: No space left") == (lost[0] == '>'),
        "%s", result.text().c_str());
  }
}

Test(output, that_was_asked_for_alone_is_not_lost_in_silence, .timeout = 60) {
  for (const std::string words : {"rlxrun --help", "rlxrun --version", "rlxrun --status --json",
                                  "rlxrun --dry-run -n 1 true", "rlx-info", "rlx-info version"}) {
    const auto result = run({"sh", "-c", built(words) + " >/dev/full"});
    cr_expect(
        result.code == 1 && count(result.err, "cannot write standard output: No space left") == 1,
        "%s: %s", words.c_str(), result.text().c_str());
  }
}

Test(output, is_objects_of_json_whatever_the_bytes, .timeout = 60) {
  const auto result =
      rlxrun_sh("-n 2 --oversubscribe --host localhost:2 --output-json",
                "test $RANK = 1 || { printf 'a\"\\\\\\t\\001\\377\\000b\\n\\n'; exit; }; "
                "printf err >&2");
  cr_expect(result.err.empty(), "%s", result.text().c_str());
  std::multiset<std::string> seen;
  for (const auto& line : rlx::test::lines_of(result.out)) {
    auto object = nlohmann::json::parse(line);
    cr_expect_eq(object["time"].get<std::string>().size(), std::size_t{23});
    object.erase("time");
    seen.insert(object.dump(-1, ' ', true));
  }
  cr_expect(
      seen ==
          (std::multiset<std::string>{
              R"({"host":"localhost","rank":0,"stream":"out","text":"a\"\\\t\u0001\ufffd\u0000b"})",
              R"({"host":"localhost","rank":0,"stream":"out","text":""})",
              R"({"host":"localhost","partial":true,"rank":1,"stream":"err","text":"err"})"}),
      "%s", result.text().c_str());
}

Test(output, that_is_one_long_line_is_cut_between_characters, .timeout = 60) {
  const auto result =
      rlxrun_sh("-n 1 --output-json",
                "awk 'BEGIN { printf \"x\"; for (i = 0; i < 100000; ++i) printf \"\\303\\251\" }'");
  std::string text;
  int n_records = 0;
  for (const auto& line : rlx::test::lines_of(result.out)) {
    text += nlohmann::json::parse(line)["text"].get<std::string>();
    ++n_records;
  }
  cr_expect(n_records > 1 && text.size() == 200001 && count(text, "\u00e9") == 100000,
            "%d records, %zu bytes", n_records, text.size());
}

Test(output, waits_for_a_slow_reader_in_bounded_memory, .timeout = 120) {
  constexpr std::size_t kLines = 4 * 250000;  // of 100 bytes
  const Mark mark;
  Background job(with_sh("-n 4 --oversubscribe", "yes $(printf %099d $RANK) | head -n 250000"),
                 mark);
  cr_assert(!job.line().empty());
  for (int i = 0; i < 100; ++i) pause_10ms();  // the reader stands still; all that can be filled is
  const long peak = peak_kb(job.pid());
  cr_expect(peak > 0 && peak < 64 * 1024, "rlxrun used %ld KiB", peak);
  std::size_t n_lines = 1;
  while (!job.line().empty()) ++n_lines;
  cr_expect_eq(n_lines, kLines);
  cr_expect_eq(job.wait(), 0);
}

Test(output, whose_reader_is_gone_ends_the_job, .timeout = 60) {
  const Mark mark;
  Background job(cut("-n 2 --oversubscribe yes"), mark);
  expect_same(job.line(), "y");
  job.close_output();
  cr_expect_eq(job.wait(), 141, "%s", job.err().c_str());
  cr_expect(mark.gone_within(3000));
  cr_expect(job.err().empty(), "%s", job.err().c_str());
}

Test(input, goes_to_the_ranks_it_is_meant_for, .timeout = 60) {
  const CommandOptions text{.input = "a\nb"};
  expect_same(rlxrun(cut("-n 2 --oversubscribe cat"), text).out, "a\nb");
  expect_same(rlxrun(cut("-n 2 --oversubscribe --stdin none cat"), text).out, "");
  expect_same(
      rlxrun(cut("-n 2 --oversubscribe --stdin all --tag-output sh -c sort"), text).out.size() == 24
          ? "both"
          : "not both",
      "both");
  expect_same(rlxrun(cut("-n 2 --oversubscribe --stdin 1 --tag-output cat"), text).out,
              "[1] a\n[1] b");
  expect_same(rlxrun(cut("-n 1 cat")).out, "");  // /dev/null
  // A loop that reads its own input is not robbed of it.
  const auto loop =
      run({"sh", "-c", "while read l; do " + built("rlxrun") + " -q -n 1 echo got $l; done"},
          {.input = "1\n2\n3\n"});
  expect_same(loop.out, "got 1\ngot 2\ngot 3\n", loop.text());
  const auto closed = run({"sh", "-c", built("rlxrun") + " -q -n 1 sh -c 'cat; echo done' <&-"});
  expect_same(closed.out, "done\n", closed.text());
  // A rank that takes only the first line of much.
  const auto little = rlxrun(cut("-n 2 --oversubscribe --stdin all head -n 1"),
                             {.input = "x\n" + std::string(1000000, 'y')});
  cr_expect_eq(little.code, 0);
  expect_same(little.out, "x\nx\n");
}

Test(input, of_a_hundred_megabytes_arrives_unchanged, .timeout = 120) {
  const auto sums = run({"sh", "-c",
                         "gen() { awk 'BEGIN { for (i = 0; i < 1000000; i++) printf \"%099d\\n\", "
                         "i }'; }; gen | md5sum; "
                         "gen | " +
                             built("rlxrun") +
                             " -q -n 1 md5sum; "
                             "gen | head -c 20000000 | md5sum; "
                             "gen | head -c 20000000 | " +
                             built("rlxrun") + " -q -n 2 --oversubscribe --stdin all md5sum"},
                        {.timeout_ms = 110000});
  std::istringstream words(sums.out);
  std::string dash, all, through, some, first, second;
  words >> all >> dash >> through >> dash >> some >> dash >> first >> dash >> second;
  cr_expect(!all.empty() && all == through, "%s", sums.text().c_str());
  cr_expect(!some.empty() && some == first && some == second, "%s", sums.text().c_str());
}

Test(input, from_a_terminal_reaches_rank_0_and_its_prompt_is_shown, .timeout = 60) {
  if (run({"sh", "-c", "command -v script"}).code != 0) cr_skip("script is not installed");
  const std::string inside = built("rlxrun") +
                             " -q -n 2 --oversubscribe sh -c 'test $RANK = 0 && { printf name:; "
                             "read n; echo hello $n; }; true'";
  const auto result = run({"script", "-qec", inside, "/dev/null"}, {.input = "world\n"});
  cr_expect(result.out.find("hello world") != std::string::npos, "%s", result.text().c_str());
  cr_expect(result.out.find("name:") != std::string::npos, "%s", result.text().c_str());
  // In the background of a shell it must not be stopped for touching the terminal.
  const std::string behind = "set -m; " + built("rlxrun") + " -q -n 1 echo ran & wait";
  const auto background = run({"script", "-qec", "sh -c '" + behind + "'", "/dev/null"});
  cr_expect(background.out.find("ran") != std::string::npos, "%s", background.text().c_str());
}
