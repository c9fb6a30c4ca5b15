// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx-eplb as users run it.
#include <criterion/criterion.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "test/support/command.h"

using rlx::test::CommandResult;
using rlx::test::TempDir;

namespace {

CommandResult eplb(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), rlx::test::built("rlx-eplb"));
  return rlx::test::run(arguments);
}

void write(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string read(const std::string& path) {
  std::stringstream s;
  s << std::ifstream(path).rdbuf();
  return s.str();
}

}  // namespace

Test(rlx_eplb, reads_plain_csv_and_json_alike) {
  const TempDir dir;
  write(dir / "plain", "2 4\n1 2 3 4\n4 3 2 1\n");
  write(dir / "csv", "layer,e0,e1,e2,e3\n0,1,2,3,4\r\n1,4,3,2,1\n");
  write(dir / "bare.csv", "1, 2, 3, 4\n4,3,2,1.0");
  write(dir / "json", R"({"rank": 0, "logical_count": [[1, 2, 3, 4], [4, 3, 2, 1.0]]})");
  write(dir / "marked.csv",
        "\xef\xbb\xbf"
        "1,2,3,4\r\n4,3,2,1\r\n");
  write(dir / "marked.json", "\xef\xbb\xbf[[1, 2, 3, 4], [4, 3, 2, 1]]");
  write(dir / "steps", "[[[1, 0, 1, 1], [1, 1, 1, 1]], [[0, 2, 2, 3], [3, 2, 1, 0]]]");
  const auto plan = [&](const std::string& name) {
    const auto r = eplb({"--loads", dir / name, "--ranks", "2", "--slots=6"});
    cr_assert_eq(r.code, 0, "%s", r.text().c_str());
    return nlohmann::json::parse(r.out)["physical_to_logical_map"];
  };
  const auto want = plan("plain");
  cr_expect_eq(want.size(), 2u);
  cr_expect(plan("csv") == want && plan("bare.csv") == want && plan("json") == want);
  cr_expect(plan("marked.csv") == want && plan("marked.json") == want);
  cr_expect_eq(plan("steps").size(), 2u);
}

Test(rlx_eplb, explains_draws_and_moves_from_what_it_wrote) {
  const TempDir dir;
  const auto first = eplb({"--generate", "1", "--ranks", "32", "--slots", "288", "--nodes", "4",
                           "--out", dir / "a.json", "--explain"});
  cr_assert_eq(first.code, 0, "%s", first.text().c_str());
  for (const char* word : {"bound", "gap", "duplicates  0", "traffic"})
    cr_expect(first.out.find(word) != std::string::npos, "%s: %s", word, first.out.c_str());
  const auto moved = eplb({"--generate", "1", "--drift", "0.2", "--ranks", "32", "--slots", "288",
                           "--from", dir / "a.json", "--budget", "5%", "--explain", "--out",
                           dir / "b.json", "--html", dir / "b.html"});
  cr_assert_eq(moved.code, 0, "%s", moved.text().c_str());
  for (const char* word : {" of 16704 slots (5.0 %)", "rounds", "payback     move: pays after"})
    cr_expect(moved.out.find(word) != std::string::npos, "%s: %s", word, moved.out.c_str());
  const auto json = nlohmann::json::parse(read(dir / "b.json"));
  cr_expect_leq(json["moves"].size(), 835u);
  cr_expect_gt(json["moves"].size(), 700u);
  const std::string page = read(dir / "b.html");
  cr_expect(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
  cr_expect(page.find("http", page.find("NS=") + 20) == std::string::npos, "fetches something");
  cr_expect_eq(page.find("src="), std::string::npos);
  const auto by_bytes =
      eplb({"--generate", "1", "--drift", "0.2", "--ranks", "32", "--slots", "288", "--from",
            dir / "a.json", "--budget", "0.5GB", "--expert-bytes", "10000000", "--explain"});
  cr_expect(by_bytes.out.find("moves       50 of 16704 slots") != std::string::npos, "%s",
            by_bytes.text().c_str());
  const auto died = eplb({"--generate", "1", "--ranks", "32", "--slots", "288", "--from",
                          dir / "a.json", "--dead", "3", "--explain"});
  cr_expect(died.out.find("payback     move: 58 layers lack an expert") != std::string::npos, "%s",
            died.text().c_str());
  for (const char* policy : {"deepseek", "rlx", "nodes"}) {
    const auto r = eplb({"--generate", "2", "--ranks", "16", "--slots", "272", "--nodes", "2",
                         "--groups", "8", "--policy", policy, "--explain"});
    cr_expect_eq(r.code, 0, "%s", r.text().c_str());
  }
}

Test(rlx_eplb, names_what_is_wrong_in_one_line_and_exits_2) {
  const TempDir dir;
  constexpr int kDeep = 300000;
  const std::string deep = "[[1, " + std::string(kDeep, '[') + std::string(kDeep, ']') + "]]";
  const struct {
    const char *name, *text, *word;
  } files[] = {{"empty", "", "the file is empty"},
               {"cut.json", "{\"logical_count\": [[1, 2], [3,", "not JSON: parse error at line 1"},
               {"other.json", "{\"count\": [[1, 2]]}", "no \"logical_count\""},
               {"twice.json", R"({"logical_count": [[1]], "logical_count": [[2]]})",
                "\"logical_count\" is in it twice"},
               {"none.json", "[]", "is no array"},
               {"flat.json", "[1, 2]", "layer 0: want an array"},
               {"ragged.json", "[[1, 2], [1]]", "layer 1: 1 counts, want 2"},
               {"nan.json", "[[1, NaN]]", "not JSON"},
               {"negative.json", "[[1, -2]]", "layer 0: -2: want a count"},
               {"huge.json", "[[9223372036854775808, 1]]", "9223372036854775808: want a count"},
               {"word.json", "[[\"a\", 1]]", "\"a\": want a count"},
               {"steps.json", "[[[1, 2]], [[1, 2], [3, 4]]]", "steps of different"},
               {"head", "2\n1 2\n", ":1: want 'layers experts'"},
               {"zero", "0 2\n", ":1: want 'layers experts'"},
               {"short", "2 2\n1 2\n", ":2: the file ends after 1 rows, its first line says 2"},
               {"long", "1 2\n1 2\n3 4\n", "after 2 rows, its first line says 1"},
               {"ragged", "2 2\n1 2\n1 2 3\n", ":3: 3 counts in this row, want 2"},
               {"nan", "1 2\n1 nan\n", ":2: 'nan': want a count"},
               {"inf", "1 2\n1 inf\n", ":2: 'inf': want a count"},
               {"minus", "1 2\n-1 1\n", ":2: '-1': want a count"},
               {"2to63", "1 2\n1 9223372036854775808\n", ":2: '9223372036854775808': want a count"},
               {"word", "1 2\n1 2x\n", ":2: '2x': want a count"},
               {"ragged.csv", "1,2\n1,2,3\n", ":2: 3 counts in this row, want 2"},
               {"hole.csv", "1,,2\n", ":1: '': want a count"},
               {"head.csv", "a,b\n", "no counts here"},
               {"nan.csv", "NaN,2\n1,2\n", ":1: 'NaN': want a count"},
               {"inf.csv", "Infinity,2\n1,2\n", ":1: 'Infinity': want a count"},
               {"half", "1.5 2\n1 2\n", ":1: want 'layers experts'"},
               {"wide", "1 2147483648\n1\n", ":1: want 'layers experts'"},
               {"tall", "2147483648 1\n1\n", ":1: want 'layers experts'"},
               {"deep.json", deep.c_str(), "layer 0: an array: want a count"},
               {"object.json", "[[1, {\"a\": 2}]]", "layer 0: an object: want a count"},
               {"two", "1 9\n1 2 3 4 5 6 7 8 9\n", "9 experts on 4 slots"}};
  for (const auto& f : files) {
    write(dir / f.name, f.text);
    const auto r = eplb({"--loads", dir / f.name, "--ranks", "2", "--slots", "4"});
    cr_expect_eq(r.code, 2, "%s: %s", f.name, r.text().c_str());
    cr_expect(r.err.find(f.word) != std::string::npos, "%s: %s", f.name, r.err.c_str());
    cr_expect_eq(std::count(r.err.begin(), r.err.end(), '\n'), 1, "%s: %s", f.name, r.err.c_str());
    cr_expect(r.out.empty());
  }
}

Test(rlx_eplb, names_a_wrong_option_or_placement) {
  const TempDir dir;
  write(dir / "l", "1 2\n1 2\n");
  write(dir / "p3", "{\"physical_to_logical_map\": [[0, 1, 1]]}");
  write(dir / "p9", "[[0, 9]]");
  write(dir / "px", "[[0, \"x\"]]");
  write(dir / "pbig", "[[0, 4294967296]]");
  write(dir / "pmax", "[[0, 18446744073709551615]]");
  write(dir / "pdeep", "[[0, " + std::string(300000, '[') + std::string(300000, ']') + "]]");
  write(dir / "p2", "[[0, 1], [0, 1]]");
  write(dir / "p1", "{\"ranks\": 1, \"physical_to_logical_map\": [[0, 1]]}");
  write(dir / "ok", "[[0, 1]]");
  const std::vector<std::string> base = {"--loads", dir / "l", "--ranks", "2", "--slots", "2"};
  const struct {
    std::vector<std::string> extra;
    const char* word;
  } table[] = {
      {{"--from", dir / "p3"}, "layer 0: 3 slots, want 2"},
      {{"--from", dir / "p9"}, "expert 9"},
      {{"--from", dir / "px"}, "want an expert id"},
      {{"--from", dir / "pbig"}, "want an expert id"},
      {{"--from", dir / "pmax"}, "want an expert id"},
      {{"--from", dir / "pdeep"}, "want an expert id"},
      {{"--from", dir / "p2"}, "2 layers, want 1"},
      {{"--from", dir / "p1"}, "a placement for 1 ranks, want 2"},
      {{"--from", dir.path()}, "is a directory"},
      {{"--loads", dir.path()}, "is a directory"},
      {{"--drift", "0.5"}, "--drift without --generate"},
      {{"--from", dir / "ok", "--budget", "1", "--policy", "deepseek"}, "keep to no budget"},
      {{"--from", dir / "ok", "--budget", "5%", "--policy", "rlx"}, "keep to no budget"},
      {{"--from", dir / "gone"}, "cannot open"},
      {{"--loads", dir / "gone"}, "cannot open"},
      {{"--frm", "x"}, "unknown option --frm"},
      {{"--ranks"}, "--ranks wants a value"},
      {{"--ranks", "0"}, "--ranks '0': want a number from 1"},
      {{"--ranks", "2x"}, "--ranks '2x'"},
      {{"--nodes", "3"}, "nodes <= ranks"},
      {{"--policy", "best"}, "want search, deepseek, rlx or nodes"},
      {{"--policy", "deepseek", "--slots", "3"}, "3 slots on 2 ranks"},
      {{"--groups", "3"}, "3 groups"},
      {{"--budget", "5%"}, "--budget without --from"},
      {{"--budget", "5x", "--from", dir / "l"}, "not JSON"},
      {{"--budget", "5MB", "--from", dir / "ok"}, "--budget '5MB'"},
      {{"--budget", "GB", "--from", dir / "ok"}, "--budget 'GB': want a number of slots"},
      {{"--dead", "2"}, "--dead '2'"},
      {{"--dead", "0,1"}, "no live rank"},
      {{"--speed", "1"}, "want RANK=SPEED"},
      {{"--speed", "1=0"}, "want RANK=SPEED"},
      {{"--gbps", "nan"}, "--gbps 'nan'"},
      {{"--generate", "1"}, "either --loads FILE or --generate"}};
  for (const auto& row : table) {
    auto arguments = base;
    arguments.insert(arguments.end(), row.extra.begin(), row.extra.end());
    const auto r = eplb(arguments);
    cr_expect_eq(r.code, 2, "%s: %s", row.word, r.text().c_str());
    cr_expect(r.err.find(row.word) != std::string::npos, "%s: %s", row.word, r.err.c_str());
    cr_expect_leq(std::count(r.err.begin(), r.err.end(), '\n'), 2, "%s", r.err.c_str());
  }
  auto unwritable = base;
  unwritable.insert(unwritable.end(), {"--out", dir / "no/such/folder"});
  cr_expect_eq(eplb(unwritable).code, 1);
  // A write that fails (a file may be 1 KiB long here) leaves the old plan as it was.
  const std::string plan = dir / "kept.json";
  std::ofstream(plan) << "old";
  const auto limited =
      rlx::test::run({"bash", "-c",
                      "ulimit -f 1; trap '' XFSZ; " + rlx::test::built("rlx-eplb") +
                          " --generate 1 --ranks 32 --slots 288 --out " + plan});
  cr_expect_eq(limited.code, 1, "%s", limited.text().c_str());
  std::string kept;
  std::getline(std::ifstream(plan), kept);
  cr_expect_str_eq(kept.c_str(), "old");
  for (const char* more : {"", " --explain", " --help"}) {
    const std::string command = rlx::test::built("rlx-eplb") +
                                " --generate 1 --ranks 32 --slots 288" + more + " > /dev/full";
    const auto full = rlx::test::run({"sh", "-c", command});
    cr_expect_eq(full.code, 1, "%s: %s", more, full.text().c_str());
    cr_expect(full.err.find("cannot write standard output") != std::string::npos, "%s: %s", more,
              full.err.c_str());
  }
  cr_expect_eq(eplb({"--help"}).code, 0);
  cr_expect_eq(eplb({"--version"}).code, 0);
}
