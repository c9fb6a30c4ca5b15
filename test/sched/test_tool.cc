// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx-eplb as users run it.
#include <criterion/criterion.h>

#include <algorithm>
#include <filesystem>
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
  write(dir / "upper.csv", "\"Layer\",E0,E1,E2,E3\n0,1,2,3,4\n1,4,3,2,1\n");
  write(dir / "id.csv", "layer_id,0,1,2,3\n0,1,2,3,4\n1,4,3,2,1\n");
  write(dir / "pandas.csv", ",0,1,2,3\n0,1,2,3,4\n1,4,3,2,1\n");
  write(dir / "numbers.csv", "0,1,2,3\n1,2,3,4\n4,3,2,1\n");
  write(dir / "long.csv",
        ",layer_id,Expert,count\n0,9,3,1\n1,2,0,1\n2,2,1,2\n3,2,2,3\n4,2,3,4\n5,9,0,4\n6,9,1,3\n7,"
        "9,2,2\n");
  const auto plan = [&](const std::string& name) {
    const auto r = eplb({"--loads", dir / name, "--ranks", "2", "--slots=6"});
    cr_assert_eq(r.code, 0, "%s", r.text().c_str());
    return nlohmann::json::parse(r.out)["physical_to_logical_map"];
  };
  const auto want = plan("plain");
  cr_expect_eq(want.size(), 2u);
  cr_expect(plan("csv") == want && plan("bare.csv") == want && plan("json") == want);
  cr_expect(plan("marked.csv") == want && plan("marked.json") == want);
  for (const char* csv : {"upper.csv", "id.csv", "pandas.csv", "numbers.csv", "long.csv"})
    cr_expect(plan(csv) == want, "%s", csv);
  cr_expect_eq(plan("steps").size(), 2u);
  const auto several =
      eplb({"--loads", dir / "plain", dir / "csv", "--ranks", "2", "--slots=6", "--explain"});
  cr_expect(several.out.find("plain and 1 more: 2 layers") == 0, "%s", several.text().c_str());
}

Test(rlx_eplb, explains_draws_and_moves_from_what_it_wrote) {
  const TempDir dir;
  const auto first = eplb({"--generate", "1", "--ranks", "32", "--slots", "288", "--nodes", "4",
                           "--out", dir / "a.json", "--explain"});
  cr_assert_eq(first.code, 0, "%s", first.text().c_str());
  for (const char* word : {"bound", "gap", "duplicates  0", "traffic"})
    cr_expect(first.out.find(word) != std::string::npos, "%s: %s", word, first.out.c_str());
  const auto moved = eplb({"--generate", "1", "--drift", "0.2", "--ranks", "32", "--slots", "288",
                           "--nodes", "4", "--from", dir / "a.json", "--budget", "5%", "--explain",
                           "--out", dir / "b.json", "--html", dir / "b.html"});
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
  const auto by_bytes = eplb({"--generate", "1", "--drift", "0.2", "--ranks", "32", "--slots",
                              "288", "--nodes", "4", "--from", dir / "a.json", "--budget", "0.5GB",
                              "--expert-bytes", "10000000", "--explain"});
  cr_expect(by_bytes.out.find("moves       50 of 16704 slots") != std::string::npos, "%s",
            by_bytes.text().c_str());
  const auto died = eplb({"--generate", "1", "--ranks", "32", "--slots", "288", "--nodes", "4",
                          "--from", dir / "a.json", "--dead", "3", "--explain"});
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
  std::string many = "layer,expert,count\n";  // a table of more than a GiB
  for (int l = 0; l < 140; ++l) many += std::to_string(l) + ",1000000,1\n";
  const std::string deep = "[[1, " + std::string(kDeep, '[') + std::string(kDeep, ']') + "]]";
  const struct {
    const char *name, *text, *word;
  } files[] = {
      {"empty", "", "the file is empty"},
      {"cut.json", "{\"logical_count\": [[1, 2], [3,", "not JSON: parse error at line 1"},
      {"other.json", "{\"count\": [[1, 2]]}", "no \"logical_count\""},
      {"twice.json", R"({"logical_count": [[1]], "logical_count": [[2]]})",
       "\"logical_count\" is in it twice"},
      {"none.json", "[]", "is no array"},
      {"empty_key.json", R"({"": 1, "": [[2]]})", "\"\" is in it twice"},
      {"flat.json", "[1, 2]", "layer 0: want an array"},
      {"ragged.json", "[[1, 2], [1]]", "layer 1: 1 counts, want 2"},
      {"nan.json", "[[1, NaN]]", "not JSON"},
      {"negative.json", "[[1, -2]]", "layer 0, expert 1: -2: want a count"},
      {"huge.json", "[[9223372036854775808, 1]]",
       "layer 0, expert 0: 9223372036854775808: want a count"},
      {"word.json", "[[\"a\", 1]]", "\"a\": want a count"},
      {"steps.json", "[[[1, 2]], [[1, 2], [3, 4]]]", "step 1: 2 layers, step 0 has 1"},
      {"rows.json", "[[[1, 2]], [1, 2]]", "step 1: want an array of layers"},
      {"torch.pt", "PK\003\004xyz", "a file of PyTorch: convert it to JSON first"},
      {"binary", "\xff\xfe\x80 1\n", ":1: '\\xff\\xfe\\x80' ...: want"},
      {"escape", "\033[31mred\n", ":1: '\\x1b[31mred': want 'layers experts'"},
      {"pair.csv", "layer,expert\n1,2\n", ":1: a column 'expert': want layer,expert,count"},
      {"more.csv", "layer,expert,rank,count\n1,2,3,4\n", "and a column 'rank'"},
      {"again.csv", "layer,expert,count\n0,1,2\n0,1,3\n", "layer 0, expert 1 is in it twice"},
      {"many.csv", many.c_str(), "more than 134217728 counts for 1000001 experts a layer"},
      {"minus.csv", "layer,expert,count\n0,-1,2\n", ":2: column 2: '-1': want a number"},
      {"index.csv", "e0,e1\n0,5,6\n", ":2: 3 counts in this row, want 2"},
      {"one.csv", "0,1,2\n", "no counts here"},
      {"head", "2\n1 2\n", ":1: '2': want 'layers experts'"},
      {"zero", "0 2\n", ":1: '0' ...: want 'layers experts'"},
      {"short", "2 2\n1 2\n", ": the file ends after 1 row, its first line says 2"},
      {"long", "1 2\n1 2\n3 4\n", "after 2 rows, its first line says 1"},
      {"ragged", "2 2\n1 2\n1 2 3\n", ":3: 3 counts in this row, want 2"},
      {"nan", "1 2\n1 nan\n", ":2: column 2: 'nan': want a count"},
      {"inf", "1 2\n1 inf\n", ":2: column 2: 'inf': want a count"},
      {"minus", "1 2\n-1 1\n", ":2: column 1: '-1': want a count"},
      {"2to63", "1 2\n1 9223372036854775808\n",
       ":2: column 2: '9223372036854775808': want a count"},
      {"word", "1 2\n1 2x\n", ":2: column 2: '2x': want a count"},
      {"ragged.csv", "1,2\n1,2,3\n", ":2: 3 counts in this row, want 2"},
      {"hole.csv", "1,,2\n", ":1: column 2: '': want a count"},
      {"head.csv", "a,b\n", "no counts here"},
      {"nan.csv", "NaN,2\n1,2\n", ":1: column 1: 'NaN': want a count"},
      {"inf.csv", "Infinity,2\n1,2\n", ":1: column 1: 'Infinity': want a count"},
      {"half", "1.5 2\n1 2\n", ":1: '1.5' ...: want 'layers experts'"},
      {"wide", "1 2147483648\n1\n", ":1: '1' ...: want 'layers experts'"},
      {"tall", "2147483648 1\n1\n", ":1: '2147483648' ...: want 'layers experts'"},
      {"deep.json", deep.c_str(), "layer 0, expert 1: an array: want a count"},
      {"object.json", "[[1, {\"a\": 2}]]", "layer 0, expert 1: an object: want a count"},
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
  write(dir / "pn", R"({"nodes": 2, "physical_to_logical_map": [[0, 1]]})");
  write(dir / "pe", R"({"experts": 4, "physical_to_logical_map": [[0, 1]]})");
  write(dir / "ok", "[[0, 1]]");
  const std::vector<std::string> base = {"--loads", dir / "l", "--ranks", "2", "--slots", "2"};
  const struct {
    std::vector<std::string> extra;
    const char* word;
  } table[] = {
      {{"--from", dir / "p3"}, "layer 0: 3 slots, want 2"},
      {{"--from", dir / "p9"}, "p9: layer 0, slot 1: 9: want an expert id from 0 to 1"},
      {{"--from", dir / "px"}, "want an expert id"},
      {{"--from", dir / "pbig"}, "want an expert id"},
      {{"--from", dir / "pmax"}, "want an expert id"},
      {{"--from", dir / "pdeep"}, "want an expert id"},
      {{"--from", dir / "p2"}, "2 layers, want 1"},
      {{"--from", dir / "p1"}, "a placement for 1 ranks, want 2"},
      {{"--from", dir / "pn"}, "pn: a placement for 2 nodes, want 1"},
      {{"--from", dir / "pe"}, "pe: a placement for 4 experts, want 2"},
      {{"--budget", "", "--from", dir / "ok"}, "--budget '': want a value"},
      {{"--from="}, "--from '': want a value"},
      {{"--dead", ""}, "--dead '': want a value"},
      {{"--out", ""}, "--out '': want a value"},
      {{"--html="}, "--html '': want a value"},
      {{"--explain=1"}, "--explain takes no value"},
      {{"--speed", "0=2,0=3"}, "rank 0 is there twice"},
      {{"--out", dir / "same", "--html", dir / "./same"}, "--out and --html are one file"},
      {{"--loads", "/dev/zero"}, "/dev/zero is larger than 268435456 bytes"},
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
      {{"--nodes", "3"}, "--nodes 3: want at most as many as --ranks, 2"},
      {{"--slots", "5"}, "--slots 5 --ranks 2: want as many slots on every rank, such as 6"},
      {{"--ranks", "4", "--slots", "4", "--nodes", "3"}, "--ranks 4 --nodes 3: want as many"},
      {{"--policy", "best"}, "want search, deepseek, rlx or nodes"},
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

Test(rlx_eplb, counts_only_what_living_ranks_have_and_names_the_dead) {
  const TempDir dir;
  const std::vector<std::string> base = {"--generate", "1", "--ranks", "8", "--slots", "384"};
  const auto plan = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    const auto r = eplb(more);
    cr_assert_eq(r.code, 0, "%s", r.text().c_str());
    return r;
  };
  plan({"--out", dir / "a.json"});
  const auto r = plan({"--from", dir / "a.json", "--dead", "2,5", "--speed", "7=0.5", "--budget",
                       "0", "--explain", "--out", dir / "b.json", "--html", dir / "b.html"});
  const auto json = nlohmann::json::parse(read(dir / "b.json"));
  cr_expect(json["dead"] == nlohmann::json({2, 5}));
  cr_expect_gt(json["lost"].get<int>(), 0);
  cr_expect(json["lost"] == json["fetches"] && json["budget"] == 0);
  for (const char* word :
       {"dead        ranks 2, 5 with 96 slots a layer",
        " experts in 58 layers (layer 0: ", "which come whatever the budget; 0 for balance"})
    cr_expect(r.out.find(word) != std::string::npos, "%s: %s", word, r.out.c_str());
  cr_expect(r.err.find("--budget 0 is 0 slots: ") != std::string::npos, "%s", r.err.c_str());
  const std::string page = read(dir / "b.html"), mark = "\nconst D=";
  const size_t begin = page.find(mark) + mark.size();
  const auto data = nlohmann::json::parse(page.substr(begin, page.find(";\n", begin) - begin));
  cr_expect(data["dead"] == nlohmann::json({false, false, true, false, false, true, false, false}));
  for (int l = 0; l < 58; ++l) {
    for (int dead : {2, 5}) cr_expect_eq(data["timeBefore"][l][dead].get<double>(), 0);
    const auto after = data["timeAfter"][l].get<std::vector<double>>();
    cr_expect_leq(data["line"][l].get<double>(), *std::max_element(after.begin(), after.end()));
    cr_expect(data["before_"][l] > 0 && data["before_"][l] <= 1);
  }
}

Test(rlx_eplb, writes_through_links_keeps_rights_and_escapes_names) {
  const TempDir dir;
  const std::string name = dir / "<!--<script>.txt";
  write(name, "1 2\n1 2\n");
  write(dir / "target", "old");
  std::filesystem::permissions(dir / "target", std::filesystem::perms(0600));
  std::filesystem::create_symlink("target", dir / "link");
  const auto r = eplb({"--loads", name, "--ranks", "2", "--slots", "2", "--out", dir / "link",
                       "--html", dir / "page.html"});
  cr_assert_eq(r.code, 0, "%s", r.text().c_str());
  cr_expect(std::filesystem::is_symlink(dir / "link"));
  cr_expect(nlohmann::json::parse(read(dir / "target"))["experts"] == 2);
  cr_expect(std::filesystem::status(dir / "target").permissions() == std::filesystem::perms(0600));
  const std::string page = read(dir / "page.html");
  cr_expect(page.find("\\u003c!--\\u003cscript>.txt") != std::string::npos);
  cr_expect_eq(page.find("<!--"), std::string::npos);
}

Test(rlx_eplb, says_on_a_terminal_how_far_it_is_and_has_a_manual_page) {
  const auto shown = rlx::test::run(
      {"script", "-qec",
       rlx::test::built("rlx-eplb") + " --generate 1 --ranks 4 --slots 256 --explain",
       "/dev/null"});
  cr_expect(shown.out.find("planning: 57 of 58 layers done") != std::string::npos);
  const auto piped = eplb({"--generate", "1", "--ranks", "4", "--slots", "256"});
  cr_expect(piped.err.empty(), "%s", piped.err.c_str());
  const auto man = eplb({"--man"});
  for (const char* word :
       {".TH RLX\\-EPLB 1", ".SH OPTIONS", ".B \\-\\-loads FILE...", ".SH EXIT STATUS"})
    cr_expect(man.out.find(word) != std::string::npos, "%s: %s", word, man.out.c_str());
}
