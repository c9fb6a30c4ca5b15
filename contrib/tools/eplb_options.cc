// SPDX-License-Identifier: MIT OR Apache-2.0
#include "contrib/tools/eplb_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <functional>

#include "base/words.h"
#include "config.h"

namespace rlx::eplb {

using sched::Policy;

const char* const kHelp =
    R"(Usage: rlx-eplb --loads FILE... --ranks N --slots N [options]
Decides on which rank every expert of a mixture-of-experts model lives, from how many tokens each
expert got. Prints the placement as JSON, or with --explain a table.

Loads
  --loads FILE...    counts by layer and expert; several files (or --loads again) are windows, samples
                     of the load, that one plan serves. A file is one of, by how it starts:
                     plain: "layers experts", then a row of counts a layer;
                     CSV: a row of counts a layer. A header may come first: names, or 0,1,2,...
                     Its column "layer", "layer_id" or without a name (pandas' index) is left out;
                     CSV with the columns layer, expert and count: a row an expert, in any order;
                     JSON: [layers][experts] or [steps][layers][experts], alone or as
                     "logical_count", which SGLang dumps (a .pt file: convert it first, see README)
  --generate SEED    loads of 58 layers and 256 experts drawn by a law fitted to a real service
  --drift X          with --generate: how far that workload has moved on, 0 to 1 (default 0)
Ranks
  --ranks N          ranks (GPUs)
  --slots N          expert slots of all ranks together, as many on each, at least one an expert
  --nodes N          hosts, which ranks are dealt to in blocks (default 1)
  --racks N          racks, which nodes are dealt to in blocks (default 1)
  --dead R,R,...     ranks that are gone: their slots stay empty, what they held in --from is lost
  --speed R=X,...    ranks faster or slower than 1
Plan
  --policy P         search: best balance (default)
                     deepseek: as DeepSeek's EPLB, hierarchical if the nodes divide the groups
                     rlx: as the RLX system's rebalance_with_replicas
                     nodes: near the best balance, few copies of tokens between nodes
  --from FILE        placement to start from (JSON, as written by --out)
  --budget X         with --from and policy search or nodes: what may change hands: a number of
                     slots, 5% of them or 40GB of weights (default: any). Experts that no living
                     rank holds come first and whatever the budget
  --groups N         groups of experts that tokens are routed to together (default 1)
  --top-k N          experts a token goes to (default 8)
  --top-groups N     groups a token goes to (default: half of them)
  --fixed-cost T     what touching an expert costs before its first token, in tokens (default 0)
  --allow-empty      slots that do not help may stay empty (with --from they do)
Payback (with --from)
  --steps N          steps that the counts of a window cover (default 1000)
  --token-us X       microseconds a token-expert pair costs its rank (default 0.56)
  --expert-bytes N   size of an expert's weights (default 44040192)
  --gbps X           GB/s that a rank receives (default 50)
Output
  --explain          bound, plan, gap, duplicates, moves and payback in a table
  --out FILE         write the placement and, with --from, the moves as JSON
  --html FILE        draw it: load per rank before and after, expert-to-rank map
  -h, --help         print this
  --man              print the manual page
  --version          print the version

Limits: a file has up to 256 MiB, there are up to 2^20 ranks and 2^24 slots; policy nodes knows up to
64 nodes. A layer takes under a millisecond on 32 ranks; with 1024 experts and 4 slots a rank it takes
a second on 1024 ranks and six on 2048; 32 experts on 65536 ranks take half a minute.
Exit: 0 done; 1 cannot write, or no memory; 2 a file or an option is wrong.
)";

namespace {

Result<int64_t> parse_int(std::string_view text, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && rest == text.data() + text.size() && value >= least && value <= most)
    return value;
  return fail(Code::kInvalid, fmt::format("'{}': want a number from {} to {}", text, least, most));
}

Result<double> parse_real(std::string_view text, double least, double most) {
  double value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && rest == text.data() + text.size() && value >= least && value <= most)
    return value;
  return fail(Code::kInvalid,
              fmt::format("'{}': want a number from {:g} to {:g}", text, least, most));
}

constexpr int64_t kMostRanks = 1 << 20;

struct Row {
  const char* name;
  std::function<Status(Options&, const std::string&)> take;
};

Row text(const char* name, std::string Options::*field) {
  return {name, [=](Options& o, const std::string& value) -> Status {
            o.*field = value;
            return {};
          }};
}
Row whole(const char* name, int64_t Options::*field, int64_t least, int64_t most) {
  return {name, [=](Options& o, const std::string& value) -> Status {
            RLX_TRY_ASSIGN(o.*field, parse_int(value, least, most));
            return {};
          }};
}
Row real(const char* name, double Options::*field, double least, double most) {
  return {name, [=](Options& o, const std::string& value) -> Status {
            RLX_TRY_ASSIGN(o.*field, parse_real(value, least, most));
            return {};
          }};
}

const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {"--loads",
       [](Options& o, const std::string& value) -> Status {
         o.loads.push_back(value);
         return {};
       }},
      text("--policy", &Options::policy),
      text("--from", &Options::from),
      text("--out", &Options::out),
      text("--html", &Options::html),
      text("--budget", &Options::budget),
      text("--dead", &Options::dead),
      text("--speed", &Options::speed),
      whole("--ranks", &Options::ranks, 1, kMostRanks),
      whole("--slots", &Options::slots, 1, 1 << 24),
      whole("--nodes", &Options::nodes, 1, kMostRanks),
      whole("--racks", &Options::racks, 1, kMostRanks),
      whole("--groups", &Options::groups, 1, 1 << 20),
      whole("--top-k", &Options::top_k, 1, 1 << 16),
      whole("--top-groups", &Options::top_groups, 1, 1 << 20),
      whole("--steps", &Options::steps, 1, INT64_MAX),
      whole("--expert-bytes", &Options::expert_bytes, 0, int64_t{1} << 40),
      whole("--generate", &Options::seed, 0, INT64_MAX),
      real("--drift", &Options::drift, 0, 1),
      real("--fixed-cost", &Options::fixed_cost, 0, 1e18),
      real("--token-us", &Options::token_us, 0, 1e9),
      real("--gbps", &Options::gbps, 1e-6, 1e9)};
  return table;
}

// The row of an option, and its value if "=" joins them.
struct Word {
  std::string name, value;
  bool joined = false;
};

Word word_of(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (!argument.starts_with("--") || equals == std::string::npos) return {argument, "", false};
  return {argument.substr(0, equals), argument.substr(equals + 1), true};
}

Status take(const Word& word, const std::string& value, Options& o) {
  for (const Row& row : rows()) {
    if (word.name != row.name) continue;
    if (value.empty()) return fail(Code::kInvalid, word.name + " '': want a value");
    if (Status ok = row.take(o, value); !ok)
      return fail(Code::kInvalid, word.name + " " + ok.error().text);
    return {};
  }
  return fail(Code::kInvalid, fmt::format("unknown option {}", word.name));
}

bool is_known(const std::string& name) {
  return std::any_of(rows().begin(), rows().end(), [&](const Row& r) { return name == r.name; });
}

// Of those that are dealt in blocks.
Status check_blocks(const char* name, int64_t n, const char* block, int64_t n_blocks) {
  if (n_blocks > n)
    return fail(Code::kInvalid,
                fmt::format("--{} {}: want at most as many as --{}, {}", block, n_blocks, name, n));
  if (n % n_blocks != 0)
    return fail(Code::kInvalid, fmt::format("--{} {} --{} {}: want as many {} in every block", name,
                                            n, block, n_blocks, name));
  return {};
}

Status check(const Options& o) {
  if (o.loads.empty() == (o.seed < 0))
    return fail(Code::kInvalid, "want either --loads FILE or --generate SEED");
  if (o.drift > 0 && o.seed < 0)
    return fail(Code::kInvalid, "--drift without --generate: it changes generated loads only");
  if (o.ranks == 0 || o.slots == 0) return fail(Code::kInvalid, "want --ranks N and --slots N");
  if (o.slots % o.ranks != 0)
    return fail(
        Code::kInvalid,
        fmt::format("--slots {} --ranks {}: want as many slots on every rank, such as {} in all",
                    o.slots, o.ranks, (o.slots / o.ranks + 1) * o.ranks));
  RLX_TRY(check_blocks("ranks", o.ranks, "nodes", o.nodes));
  RLX_TRY(check_blocks("nodes", o.nodes, "racks", o.racks));
  if (!o.budget.empty() && o.from.empty())
    return fail(Code::kInvalid, "--budget without --from: there is nothing to move from");
  return {};
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

Result<Options> parse(int argc, char** argv) {
  Options o;
  bool more_loads = false;  // --loads takes all files that follow
  for (int i = 1; i < argc; ++i) {
    const Word word = word_of(argv[i]);
    if (word.name == "--explain" || word.name == "--allow-empty") {
      if (word.joined) return fail(Code::kInvalid, word.name + " takes no value");
      (word.name == "--explain" ? o.explain : o.allow_empty) = true;
      more_loads = false;
    } else if (more_loads && !word.name.starts_with("-")) {
      RLX_TRY(take({"--loads", "", false}, argv[i], o));
    } else {
      if (!is_known(word.name))
        return fail(Code::kInvalid, fmt::format("unknown option {}", word.name));
      if (!word.joined && ++i == argc) return fail(Code::kInvalid, word.name + " wants a value");
      RLX_TRY(take(word, word.joined ? word.value : argv[i], o));
      more_loads = word.name == "--loads";
    }
  }
  RLX_TRY(check(o));
  return o;
}

Result<std::vector<uint8_t>> dead_ranks(const Options& o) {
  std::vector<uint8_t> dead;
  for (const std::string& word : split_list(o.dead)) {
    const auto rank = parse_int(word, 0, o.ranks - 1);
    if (!rank) return fail(Code::kInvalid, "--dead " + rank.error().text);
    dead.resize(o.ranks);
    dead[*rank] = 1;
  }
  return dead;
}

Result<std::vector<double>> speeds(const Options& o) {
  std::vector<double> speeds(o.ranks, 1);
  std::vector<uint8_t> seen(o.ranks);
  for (const std::string& word : split_list(o.speed)) {
    const size_t equals = word.find('=');
    const auto rank = parse_int(word.substr(0, equals), 0, o.ranks - 1);
    const auto speed =
        parse_real(equals == std::string::npos ? "" : word.substr(equals + 1), 1e-3, 1e3);
    if (!rank || !speed)
      return fail(Code::kInvalid, fmt::format("--speed '{}': want RANK=SPEED, ranks from 0 to {}, "
                                              "speeds from 0.001 to 1000",
                                              word, o.ranks - 1));
    if (seen[*rank]++)
      return fail(Code::kInvalid,
                  fmt::format("--speed '{}': rank {} is there twice", o.speed, *rank));
    speeds[*rank] = *speed;
  }
  return speeds;
}

Result<Policy> policy_named(const std::string& name) {
  const std::pair<const char*, Policy> names[] = {{"search", Policy::search},
                                                  {"deepseek", Policy::deepseek},
                                                  {"rlx", Policy::rlx},
                                                  {"nodes", Policy::nodes}};
  for (const auto& [word, policy] : names)
    if (name == word) return policy;
  return fail(Code::kInvalid,
              fmt::format("--policy '{}': want search, deepseek, rlx or nodes", name));
}

Result<int64_t> parse_budget(const Options& o, double slots) {
  std::string_view number = o.budget;
  const bool percent = number.ends_with("%"), bytes = number.ends_with("GB");
  number.remove_suffix(percent ? 1 : bytes ? 2 : 0);
  const auto value = parse_real(number, 0, percent ? 100 : 1e15);
  if (!value)
    return fail(Code::kInvalid,
                fmt::format("--budget '{}': want a number of slots, 5% or 40GB", o.budget));
  if (percent) return static_cast<int64_t>(*value / 100 * slots);
  if (!bytes) return static_cast<int64_t>(*value);
  const double size = static_cast<double>(o.expert_bytes);
  return static_cast<int64_t>(std::min(slots, *value * 1e9 / std::max(size, 1e-9)));
}

namespace {

// Text for troff: "-" is a minus, and no line starts with a control character.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '-' || c == '\\') out += '\\';
    out += c;
  }
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

// A line of the list of options: "  --name VALUE   what it does", or more of what it does.
std::string man_entry(std::string_view line) {
  if (!line.starts_with("  -")) {
    const std::string_view more = trimmed(line);
    const bool item = more.find(": ") < more.find(' ');  // one of a list
    return (item ? ".br\n" : "") + escaped(more) + "\n";
  }
  const size_t gap = line.find("  ", 2);
  return fmt::format(".TP\n.B {}\n{}\n", escaped(trimmed(line.substr(0, gap))),
                     escaped(trimmed(line.substr(std::min(gap, line.size())))));
}

}  // namespace

std::string man_page() {
  constexpr std::string_view kUsage = "Usage: ";
  std::string out = fmt::format(
      ".TH RLX\\-EPLB 1 \"\" \"rlx {}\" \"User Commands\"\n.SH NAME\nrlx\\-eplb \\- plan where the "
      "experts of a mixture\\-of\\-experts model live\n",
      PACKAGE_VERSION);
  std::string_view rest = kHelp;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(line.size() + 1);
    const size_t colon = line.find(": ");
    if (line.starts_with(kUsage))
      out +=
          fmt::format(".SH SYNOPSIS\n{}\n.SH DESCRIPTION\n", escaped(line.substr(kUsage.size())));
    else if (line.starts_with("Limits: ") || line.starts_with("Exit: "))
      out += fmt::format(".SH {}\n{}\n", line[0] == 'L' ? "LIMITS" : "EXIT STATUS",
                         escaped(line.substr(colon + 2)));
    else if (line == "Loads")
      out += ".SH OPTIONS\n.SS Loads\n";
    else if (line.starts_with(' '))
      out += man_entry(line);
    else if (line.find(' ') == std::string_view::npos || line.starts_with("Payback"))
      out += line.empty() ? "" : fmt::format(".SS {}\n", line);
    else
      out += escaped(line) + "\n";
  }
  return out + ".SH SEE ALSO\n.BR rlxrun (1),\n.BR rlx (7)\n";
}

}  // namespace rlx::eplb
