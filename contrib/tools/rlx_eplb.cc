// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx-eplb: feed it load counts, get a placement of experts and what it is worth.
#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>

#include "config.h"
#include "contrib/tools/eplb_files.h"
#include "contrib/tools/eplb_report.h"
#include "sched/generate.h"

namespace rlx::eplb {
namespace {

using namespace sched;

constexpr const char* kHelp =
    R"(Usage: rlx-eplb --loads FILE... --ranks N --slots N [options]
Decides on which rank every expert of a mixture-of-experts model lives, from how many tokens each
expert got. Prints the placement as JSON, or with --explain a table.

Loads
  --loads FILE       counts by layer and expert: plain ("layers experts", then a row a layer), CSV, or
                     SGLang's JSON (logical_count); several files are windows that one plan serves
  --generate SEED    loads of 58 layers and 256 experts drawn by a law fitted to a real service
  --drift X          with --generate: how far that workload has moved on, 0 to 1 (default 0)
Ranks
  --ranks N          ranks (GPUs)
  --slots N          expert slots of all ranks together, at least one an expert
  --nodes N          hosts, which ranks are dealt to in blocks (default 1)
  --racks N          racks, which nodes are dealt to in blocks (default 1)
  --dead R,R,...     ranks that are gone
  --speed R=X,...    ranks faster or slower than 1
Plan
  --policy P         search: best balance (default)
                     deepseek: as DeepSeek's EPLB, hierarchical if the nodes divide the groups
                     rlx: as the RLX system's rebalance_with_replicas
                     nodes: near the best balance, few copies of tokens between nodes
  --from FILE        placement to start from (JSON, as written by --out)
  --budget X         with --from and policy search or nodes: what may change hands: a number of
                     slots, 5% of them or 40GB of weights (default: any)
  --groups N         groups of experts that tokens are routed to together (default 1)
  --top-k N          experts a token goes to (default 8)
  --top-groups N     groups a token goes to (default: half of them)
  --fixed-cost T     what touching an expert costs before its first token, in tokens (default 0)
  --allow-empty      slots that do not help may stay empty
Payback (with --from)
  --steps N          steps that the counts cover (default 1000)
  --token-us X       microseconds a token-expert pair costs its rank (default 0.56)
  --expert-bytes N   size of an expert's weights (default 44040192)
  --gbps X           GB/s that a rank receives (default 50)
Output
  --explain          bound, plan, gap, duplicates, moves and payback in a table
  --out FILE         write the placement and, with --from, the moves as JSON
  --html FILE        draw it: load per rank before and after, expert-to-rank map
  -h, --help, --version

Exit: 0 done; 1 cannot write, or no memory; 2 a file or an option is wrong.
)";

struct Options {
  std::vector<std::string> loads;
  std::string policy = "search", from, out, html, budget, dead, speed;
  int64_t ranks = 0, slots = 0, nodes = 1, racks = 1, groups = 1, top_k = 8, top_groups = 0;
  int64_t steps = 1000, expert_bytes = 44040192, seed = -1;
  double drift = 0, fixed_cost = 0, token_us = 0.56, gbps = 50;
  bool explain = false, allow_empty = false;
};

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

Result<Options> parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i], value;
    if (name == "--explain" || name == "--allow-empty") {
      (name == "--explain" ? o.explain : o.allow_empty) = true;
      continue;
    }
    const size_t equals = name.find('=');
    const bool joined = name.starts_with("--") && equals != std::string::npos;
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    const Row* row = nullptr;
    for (const Row& r : rows())
      if (name == r.name) row = &r;
    if (!row) return fail(Code::kInvalid, fmt::format("unknown option {}", name));
    if (!joined && ++i == argc) return fail(Code::kInvalid, name + " wants a value");
    if (!joined) value = argv[i];
    if (Status ok = row->take(o, value); !ok)
      return fail(Code::kInvalid, name + " " + ok.error().text);
  }
  if (o.loads.empty() == (o.seed < 0))
    return fail(Code::kInvalid, "want either --loads FILE or --generate SEED");
  if (o.drift > 0 && o.seed < 0)
    return fail(Code::kInvalid, "--drift without --generate: it changes generated loads only");
  if (o.ranks == 0 || o.slots == 0) return fail(Code::kInvalid, "want --ranks N and --slots N");
  if (!o.budget.empty() && o.from.empty())
    return fail(Code::kInvalid, "--budget without --from: there is nothing to move from");
  return o;
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

// What the library is asked, kept together because options point into it.
struct Job {
  Loads loads;
  Cluster cluster;
  Placement from;
  std::vector<uint8_t> dead;
  PlanOptions options;
};

Status read_ranks(const Options& o, Job& job) {
  RLX_TRY_ASSIGN(job.cluster, make_cluster(static_cast<int>(o.ranks), static_cast<int>(o.slots),
                                           static_cast<int>(o.nodes), static_cast<int>(o.racks)));
  job.dead.assign(job.cluster.ranks(), 0);
  for (const std::string& word : split_list(o.dead)) {
    const auto rank = parse_int(word, 0, o.ranks - 1);
    if (!rank) return fail(Code::kInvalid, "--dead " + rank.error().text);
    job.dead[*rank] = 1;
  }
  for (const std::string& word : split_list(o.speed)) {
    const size_t equals = word.find('=');
    const auto rank = parse_int(word.substr(0, equals), 0, o.ranks - 1);
    const auto speed =
        parse_real(equals == std::string::npos ? "" : word.substr(equals + 1), 1e-3, 1e3);
    if (!rank || !speed)
      return fail(Code::kInvalid, fmt::format("--speed '{}': want RANK=SPEED, ranks from 0 to {}, "
                                              "speeds from 0.001 to 1000",
                                              word, o.ranks - 1));
    job.cluster.speed[*rank] = *speed;
  }
  return {};
}

// Slots that may change hands, of `slots`: their number, a share of them or the bytes they hold.
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

Status read_job(const Options& o, Job& job) {
  RLX_TRY_ASSIGN(job.options.policy, policy_named(o.policy));
  RLX_TRY(read_ranks(o, job));
  for (const std::string& path : o.loads) RLX_TRY(add_loads(path, job.loads));
  if (o.seed >= 0) {
    LoadLaw law;
    law.seed = static_cast<uint64_t>(o.seed);
    law.drift = o.drift;
    job.loads = generate_loads(law);
  }
  PlanOptions& p = job.options;
  p.groups = static_cast<int>(o.groups);
  p.routing.k = static_cast<int>(std::min<int64_t>(o.top_k, job.loads.experts));
  p.routing.groups = p.groups;
  p.routing.top_groups =
      static_cast<int>(o.top_groups ? std::min(o.top_groups, o.groups) : (o.groups + 1) / 2);
  p.time.fixed_cost = o.fixed_cost;
  p.allow_empty = o.allow_empty;
  if (!o.dead.empty()) p.dead = job.dead;
  if (o.from.empty()) return {};
  RLX_TRY_ASSIGN(job.from, read_placement(o.from, job.loads.layers, job.cluster));
  p.from = &job.from;
  if (o.budget.empty()) return {};
  RLX_TRY_ASSIGN(p.max_fetches,
                 parse_budget(o, static_cast<double>(job.loads.layers) * job.cluster.slots()));
  return {};
}

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What the move is worth: the counts cover `steps` steps.
void judge(const Options& o, const Job& job, Report& report) {
  const Plan& plan = report.plan;
  const double steps = static_cast<double>(o.steps) * job.loads.windows;
  double saved = 0, excess = 0;
  int incomplete = 0;
  for (const LayerReport& l : plan.layers) {
    incomplete += l.before <= 0 && l.mean > 0;
    if (l.before <= 0) continue;
    saved += (l.before - l.peak) / steps;
    excess = std::max(excess, l.before / l.mean - 1);
  }
  if (incomplete > 0) {  // staying is no choice, whatever the move costs
    report.payback = fmt::format("move: {} layers lack an expert now", incomplete);
    return;
  }
  if (!report.migration) return;
  const auto& received = report.migration->received;
  const MoveCost cost{
      .bytes = static_cast<double>(*std::max_element(received.begin(), received.end())),
      .bytes_per_second = o.gbps * 1e9};
  const Payback payback = weigh({.tokens_saved = saved,
                                 .excess = excess,
                                 .noise = report.noise,
                                 .token_seconds = o.token_us * 1e-6,
                                 .move_seconds = cost.seconds()},
                                Experience());
  report.payback = fmt::format(
      "{}\n            (model: {:.3g} ms saved a step, {:.3g} s to move; {:g} us a token-expert "
      "pair, "
      "{:g} GB/s, counts of {} steps)",
      payback.reason, payback.saved_per_step * 1e3, payback.cost, o.token_us, o.gbps, o.steps);
}

double step_noise(const Options& o, const Job& job, const Placement& placement) {
  double sum = 0;
  for (int l = 0; l < job.loads.layers; ++l) {
    std::vector<double> step(job.loads.row(0, l).begin(), job.loads.row(0, l).end());
    for (double& w : step) w /= static_cast<double>(o.steps);
    sum += sampling_noise(step, placement.row(l), job.cluster);
  }
  return sum / job.loads.layers;
}

Status fill(const Options& o, const Job& job, Report& report) {
  report.noise = step_noise(o, job, report.plan.placement);
  if (report.has_from) {
    RLX_TRY_ASSIGN(report.migration,
                   plan_migration(job.from, report.plan.placement, job.loads.experts, job.cluster,
                                  o.expert_bytes, job.options.dead));
    judge(o, job, report);
  }
  if (job.cluster.nodes() < 2 || job.cluster.nodes() > 64) return {};
  RLX_TRY_ASSIGN(report.copies, expected_copies(job.loads, report.plan.placement, job.cluster,
                                                job.options.routing));
  if (auto before = expected_copies(job.loads, report.before, job.cluster, job.options.routing))
    report.copies_before = *before;
  return {};
}

int complain(const Error& error, int code) {
  fmt::print(stderr, "rlx-eplb: {}\n", error.text);
  return code;
}

int print_out(const std::string& text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (written && std::fflush(stdout) == 0) return 0;
  return complain(fail_errno("cannot write standard output").value(), 1);
}

int run(const Options& o) {
  Job job;
  if (Status ok = read_job(o, job); !ok) return complain(ok.error(), 2);
  const double start = seconds_now();
  const auto plan = make_plan(job.loads, job.cluster, job.options);
  if (!plan) return complain(plan.error(), 2);
  std::string title = o.loads.empty() ? fmt::format("generated loads {}", o.seed)
                                      : o.loads[0].substr(o.loads[0].rfind('/') + 1);
  if (o.loads.size() > 1) title += fmt::format(" and {} more", o.loads.size() - 1);
  Report report{title,
                o.policy,
                job.loads,
                job.cluster,
                job.options.time,
                o.from.empty() ? in_order(job.loads.layers, job.loads.experts, job.cluster.slots())
                               : job.from,
                !o.from.empty(),
                *plan,
                seconds_now() - start,
                {},
                o.expert_bytes,
                "",
                0,
                {},
                {}};
  if (Status ok = fill(o, job, report); !ok) return complain(ok.error(), 2);
  const std::string json = placement_json(plan->placement, job.cluster, job.loads.experts,
                                          report.migration ? &*report.migration : nullptr);
  if (!o.out.empty())
    if (Status ok = write_file(o.out, json); !ok) return complain(ok.error(), 1);
  if (!o.html.empty())
    if (Status ok = write_file(o.html, page(report)); !ok) return complain(ok.error(), 1);
  if (o.explain) return print_out(table(report));
  return o.out.empty() && o.html.empty() ? print_out(json) : 0;
}

int start(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--help") == 0 || std::strcmp(argv[i], "-h") == 0)
      return print_out(kHelp);
    if (std::strcmp(argv[i], "--version") == 0)
      return print_out(fmt::format("rlx-eplb {}\n", PACKAGE_VERSION));
  }
  const auto options = parse(argc, argv);
  if (options) return run(*options);
  return complain({options.error().code, options.error().text + "\nTry 'rlx-eplb --help'."}, 2);
}

}  // namespace
}  // namespace rlx::eplb

int main(int argc, char** argv) {
  try {
    return rlx::eplb::start(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("rlx-eplb: no memory for loads and plans of this size\n", stderr);
    return 1;
  }
}
