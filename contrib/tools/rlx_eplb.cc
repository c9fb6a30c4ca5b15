// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx-eplb: feed it load counts, get a placement of experts and what it is worth.
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

#include "base/file.h"
#include "base/words.h"
#include "config.h"
#include "contrib/tools/eplb_files.h"
#include "contrib/tools/eplb_options.h"
#include "contrib/tools/eplb_report.h"
#include "sched/generate.h"

namespace rlx::eplb {
namespace {

using namespace sched;

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
  RLX_TRY_ASSIGN(job.dead, dead_ranks(o));
  RLX_TRY_ASSIGN(job.cluster.speed, speeds(o));
  return {};
}

// On a terminal one line that says how far planning is; the next call, or -1, takes its place.
void show_progress(int done, int layers) {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (!terminal) return;
  fmt::print(stderr, "\r\x1b[K");
  if (done >= 0) fmt::print(stderr, "planning: {} of {} done", done, counted(layers, "layer"));
  std::fflush(stderr);
}

Status read_job(const Options& o, Job& job) {
  RLX_TRY_ASSIGN(job.options.policy, policy_named(o.policy));
  RLX_TRY(read_ranks(o, job));
  if (!o.out.empty() && !o.html.empty() && is_same_output(o.out, o.html))
    return fail(Code::kInvalid, fmt::format("--out and --html are one file, {}", o.out));
  for (const std::string& path : o.loads) {
    std::string note;
    RLX_TRY(add_loads(path, job.loads, note));
    if (!note.empty()) fmt::print(stderr, "rlx-eplb: {}\n", printable(note));
  }
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
  p.dead = job.dead;
  p.progress = show_progress;
  if (o.from.empty()) return {};
  RLX_TRY_ASSIGN(job.from,
                 read_placement(o.from, job.loads.layers, job.loads.experts, job.cluster));
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
    report.payback =
        fmt::format("move: {} an expert now",
                    incomplete == 1 ? "1 layer lacks" : fmt::format("{} layers lack", incomplete));
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
      "pair, {:g} GB/s, counts of {} steps)",
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
  fmt::print(stderr, "rlx-eplb: {}\n", printable(error.text));
  return code;
}

int show(const std::string& text) {
  const Status shown = print_out(text);
  return shown ? 0 : complain(shown.error(), 1);
}

std::string title_of(const Options& o) {
  if (o.loads.empty()) return fmt::format("generated loads {}", o.seed);
  const std::string name = printable(o.loads[0].substr(o.loads[0].rfind('/') + 1));
  return o.loads.size() > 1 ? fmt::format("{} and {} more", name, o.loads.size() - 1) : name;
}

Report report_of(const Options& o, const Job& job, const Plan& plan, double seconds) {
  Report report{.title = title_of(o),
                .policy = o.policy,
                .loads = job.loads,
                .cluster = job.cluster,
                .time = job.options.time,
                .before = o.from.empty()
                              ? in_order(job.loads.layers, job.loads.experts, job.cluster, job.dead)
                              : job.from,
                .has_from = !o.from.empty(),
                .plan = plan,
                .seconds = seconds,
                .migration = {},
                .expert_bytes = o.expert_bytes,
                .payback = "",
                .budget = job.options.max_fetches,
                .dead = job.dead,
                .steps = o.steps,
                .noise = 0,
                .copies_before = {},
                .copies = {}};
  drop_dead(report.before, job.cluster, job.dead);
  return report;
}

Status write_files(const Options& o, const Report& report, const std::string& json) {
  if (!o.out.empty()) RLX_TRY(write_file(o.out, json));
  if (!o.html.empty()) RLX_TRY(write_file(o.html, page(report)));
  return {};
}

int run(const Options& o) {
  Job job;
  if (Status ok = read_job(o, job); !ok) return complain(ok.error(), 2);
  const double start = seconds_now();
  const auto plan = make_plan(job.loads, job.cluster, job.options);
  show_progress(-1, 0);
  if (!plan) return complain(plan.error(), 2);
  Report report = report_of(o, job, *plan, seconds_now() - start);
  if (Status ok = fill(o, job, report); !ok) return complain(ok.error(), 2);
  const std::string json =
      placement_json(*plan, job.cluster, job.loads.experts, job.dead,
                     report.migration ? &*report.migration : nullptr, report.budget);
  if (Status ok = write_files(o, report, json); !ok) return complain(ok.error(), 1);
  if (report.budget >= 0 && plan->fetches() > report.budget)
    fmt::print(stderr, "rlx-eplb: --budget {} is {}: {}\n", o.budget,
               counted(report.budget, "slot"), budget_words(*plan));
  if (o.explain) return show(table(report));
  return o.out.empty() && o.html.empty() ? show(json) : 0;
}

int start(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") return show(kHelp);
    if (word == "--man") return show(man_page());
    if (word == "--version") return show(fmt::format("rlx-eplb {}\n", PACKAGE_VERSION));
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
