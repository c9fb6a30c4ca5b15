// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx-info: what is here, how it is set, and what would be chosen for a call and why.
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/knobs.h"
#include "base/topology.h"
#include "coll/algorithm.h"
#include "coll/select.h"
#include "config.h"
#include "fabrics/registry.h"

namespace rlx {
namespace {

constexpr const char* kHelp =
    R"(Usage: rlx-info [version|fabrics|topology|knobs|algorithms]
       rlx-info explain COLLECTIVE BYTES DTYPE [-np N] [--op OP] [--mode MODE] [--fabric NAME]
       rlx-info man
Says what this installation of rlx is and sees; without a word, all of it.

  version      version, compiler and how it was configured
  fabrics      which can be used here, and why others cannot
  topology     cores, caches and memory of this process
  knobs        every RLX_ variable with its value and where that came from
  algorithms   of the collectives, with their sources
  explain      which algorithm a call gets, and what each would cost; BYTES is the larger
               buffer of a rank (8, 64K, 1M), as for rlx-perf
  man          the manual page rlx(7) with the knobs, as roff

  -np N        ranks (default 2)
  --op OP      of reductions: sum prod min max avg land lor lxor band bor bxor (default sum)
  --mode MODE  of float sums: fast, ordered, exact (default fast)
  --fabric F   between the ranks: shm (one host) or tcp (default shm)
  --help, --version

Exit: 0 done; 1 something here does not work; 2 usage.
)";

int complain(const std::string& text, int code) {
  fmt::print(stderr, "rlx-info: {}\n", text);
  return code;
}
int usage(const std::string& text) { return complain(text + "\nTry 'rlx-info --help'.", 2); }

// --- version, fabrics, topology, knobs, algorithms ---

void show_version() {
  fmt::print("rlx {}\n  compiler    {} {}\n  configured  {}\n", PACKAGE_VERSION, RLX_COMPILER,
             __VERSION__, RLX_CONFIGURE_ARGUMENTS[0] != 0 ? RLX_CONFIGURE_ARGUMENTS : "(defaults)");
}

void show_fabrics() {
  fmt::print("fabrics, best first\n");
  char host[256] = "localhost";
  (void)::gethostname(host, sizeof host - 1);
  BootstrapFacts facts;
  facts.source = "rlx-info";
  facts.job_id = fmt::format("rlx-info-{}", ::getpid());
  facts.hostname = host;
  facts.local_ranks = {0};
  for (const WireEntry& entry : wire_table()) {
    const auto wire = entry.make(facts);
    fmt::print("  {:<10}  {}\n", entry.name, wire ? "works here" : "off: " + wire.error().text);
  }
}

int show_topology() {
  const auto topology =
      Topology::load({.xml_file = "", .xml = "", .synthetic = "", .devices = true});
  if (!topology) return complain(topology.error().text, 1);
  fmt::print("topology that this process may use\n");
  constexpr Locality kKinds[] = {Locality::kPackage, Locality::kNuma, Locality::kL3,
                                 Locality::kCore, Locality::kThread};
  for (const Locality kind : kKinds) {
    fmt::print("  {:<10}  {}\n", name_of(kind), topology->domains(kind).size());
  }
  fmt::print("  {:<10}  {}\n", "slots", topology->slots());
  if (topology->quota() > 0) fmt::print("  {:<10}  {:.2f} CPUs\n", "quota", topology->quota());
  for (const Gpu& gpu : topology->gpus()) fmt::print("  {:<10}  {} {}\n", "gpu", gpu.pci, gpu.name);
  return 0;
}

int show_knobs() {
  fmt::print("knobs (variable, value, from, what it sets)\n");
  for (const KnobInfo& knob : knob_table()) {
    fmt::print("  {:<18}  {:<10}  {:<11}  {} [{}; default {}]\n", knob.variable,
               knob.value.empty() ? "\"\"" : knob.value, knob.source, knob.sentence, knob.type,
               knob.default_value.empty() ? "\"\"" : knob.default_value);
  }
  const auto status = check_knobs();
  return status ? 0 : complain(status.error().text, 1);
}

void show_algorithms() {
  fmt::print("algorithms (collective, name, what it does, source)\n");
  for (const Algorithm* a : algorithms()) {
    fmt::print("  {:<14}  {:<18}  {}{}\n", name_of(a->coll), a->name, a->summary,
               a->source.empty() ? "" : fmt::format(" ({})", a->source));
  }
}

// --- explain ---

struct Question {
  Shape shape;
  std::uint64_t n_bytes = 0;
  std::string fabric = "shm";
};

// Names of values 0 .. count-1 of an enum with name_of.
template <class Enum>
std::vector<std::string> names(int count) {
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.emplace_back(name_of(static_cast<Enum>(i)));
  return all;
}

template <class Enum>
Status parse_name(std::string_view what, std::string_view word, int count, Enum& value) {
  const auto all = names<Enum>(count);
  for (int i = 0; i < count; ++i) {
    if (all[static_cast<std::size_t>(i)] != word) continue;
    value = static_cast<Enum>(i);
    return {};
  }
  const std::string near = nearest_word(word, all);
  return fail(Code::kInvalid, fmt::format("there is no {} \"{}\"{}", what, word,
                                          near.empty() ? "" : "; did you mean " + near + "?"));
}

Status parse_bytes(std::string_view word, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const std::string_view suffix = word.substr(static_cast<std::size_t>(end - word.data()));
  const std::size_t power = std::string_view("KMG").find(suffix);
  const int shift = suffix.empty() ? 0 : 10 * (static_cast<int>(power) + 1);
  if (error != std::errc{} || suffix.size() > 1 || power == std::string_view::npos ||
      value > (~std::uint64_t{0} >> shift)) {
    return fail(Code::kInvalid, fmt::format("{} is no size; wanted 8, 64K, 1M or 2G", word));
  }
  value <<= shift;
  return {};
}

Status parse_option(std::string_view option, std::string_view value, Question& q) {
  if (option == "--op") return parse_name("operation", value, kOpCount, q.shape.op);
  if (option == "--mode") return parse_name("mode", value, 3, q.shape.mode);
  if (option == "--fabric") {
    if (value != "shm" && value != "tcp") {
      return fail(Code::kInvalid, fmt::format("--fabric {}: wanted shm or tcp", value));
    }
    q.fabric = value;
    return {};
  }
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), q.shape.n_ranks);
  if (error != std::errc{} || end != value.data() + value.size() || q.shape.n_ranks < 1 ||
      q.shape.n_ranks > 1 << 20) {
    return fail(Code::kInvalid, fmt::format("{} {}: wanted 1 to 1048576", option, value));
  }
  return {};
}

Status parse_question(const std::vector<std::string_view>& words, Question& q) {
  std::vector<std::string_view> plain;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "-np" || word == "--np" || word == "-n" || word == "--op" || word == "--mode" ||
        word == "--fabric") {
      if (++i == words.size()) return fail(Code::kInvalid, fmt::format("{} needs a value", word));
      RLX_TRY(parse_option(word, words[i], q));
    } else if (word.substr(0, 1) == "-") {
      return fail(Code::kInvalid, fmt::format("unknown option {}", word));
    } else {
      plain.push_back(word);
    }
  }
  if (plain.size() != 3) return fail(Code::kInvalid, "explain wants COLLECTIVE BYTES DTYPE");
  RLX_TRY(parse_name("collective", plain[0], kCollCount, q.shape.coll));
  RLX_TRY(parse_bytes(plain[1], q.n_bytes));
  return parse_name("dtype", plain[2], kDtypeCount, q.shape.dtype);
}

bool is_in_blocks(Coll coll) {
  return coll == Coll::all_gather || coll == Coll::reduce_scatter || coll == Coll::all_to_all ||
         coll == Coll::gather || coll == Coll::scatter;
}

int explain(const std::vector<std::string_view>& words) {
  Question q;
  q.shape.n_ranks = 2;
  if (const auto status = parse_question(words, q); !status) return usage(status.error().text);
  Shape& shape = q.shape;
  if (shape.is_v()) {
    return usage(
        fmt::format("{} has counts for each rank; explain takes one size", name_of(shape.coll)));
  }
  if (!op_applies(shape.op, shape.dtype)) {
    return usage(
        fmt::format("{} is for integers, {} is not one", name_of(shape.op), name_of(shape.dtype)));
  }
  const auto n_ranks = static_cast<std::uint64_t>(shape.n_ranks);
  shape.count = q.n_bytes / size_of(shape.dtype) / (is_in_blocks(shape.coll) ? n_ranks : 1);
  shape.one_host = q.fabric == "shm";

  std::vector<Rule> rules;
  if (!knobs().rules.empty()) {
    auto loaded = load_rules(knobs().rules);
    if (!loaded) return complain(loaded.error().text, 1);
    rules = std::move(*loaded);
  }
  const auto topology = Topology::load();
  const int cores = topology ? topology->slots() : 1;
  Selector selector(model_of(q.fabric, shape.one_host ? shape.n_ranks : 1, cores),
                    std::move(rules));
  const Model& model = selector.model();
  fmt::print("{} of {} bytes, {}, {}, {} ranks over {}, {} cores\n", name_of(shape.coll), q.n_bytes,
             name_of(shape.dtype), name_of(shape.mode), shape.n_ranks, q.fabric, cores);
  fmt::print(
      "model: {:.2f} us a message, {:.3f} ns a byte, {:.3f} ns a byte reduced, {:.1f} us a "
      "switch\n",
      model.alpha_us, model.beta_us * 1e3, model.gamma_us * 1e3, model.switch_us);
  const Choice choice = selector.choose(shape);
  fmt::print("  {:<20} {:>14}  {}\n", "algorithm", "predicted us", "");
  for (const Candidate& c : selector.explain(shape)) {
    const bool is_chosen = c.algorithm == choice.algorithm;
    fmt::print("  {:<20} {:>14}  {}\n", c.algorithm->name,
               c.reject.empty() ? fmt::format("{:.2f}", c.cost_us) : "-",
               !c.reject.empty() ? fmt::format("rejected: {}", c.reject)
               : !is_chosen      ? ""
               : choice.rule     ? "chosen by the rule at " + choice.rule->where
                                 : "chosen: the cheapest");
  }
  return 0;
}

// --- man ---

std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '-' || c == '\\') out += '\\';
    out += c == '\\' ? 'e' : c;
  }
  return out;
}

void show_man() {
  fmt::print(
      ".TH RLX 7 \"\" \"rlx {}\" \"rlx\"\n.SH NAME\nrlx \\- environment variables of rlx\n"
      ".SH DESCRIPTION\nPrograms that use librlx and the launcher rlxrun read these variables.\n"
      "A wrong value is an error, an unknown RLX_ variable a warning.\n"
      "The command\n.B rlx\\-info knobs\nshows how they stand.\n.SH ENVIRONMENT\n",
      PACKAGE_VERSION);
  for (const KnobInfo& knob : knob_table()) {
    fmt::print(".TP\n.B {}\n{}. Values: {}. Default: {}.\n", roff(knob.variable),
               roff(knob.sentence), roff(knob.type),
               knob.default_value.empty() ? "empty" : roff(knob.default_value));
  }
  fmt::print(".SH SEE ALSO\n.BR rlxrun (1),\n.BR rlx\\-eplb (1)\n");
}

int show_all() {
  show_version();
  fmt::print("\n");
  show_fabrics();
  fmt::print("\n");
  const int topology = show_topology();
  fmt::print("\n");
  const int knobs = show_knobs();
  fmt::print("\n");
  show_algorithms();
  return topology != 0 ? topology : knobs;
}

int run(const std::vector<std::string_view>& words) {
  if (words.empty()) return show_all();
  const std::string_view what = words[0];
  if (what == "explain") return explain({words.begin() + 1, words.end()});
  if (words.size() > 1) return usage(fmt::format("{} takes no arguments", what));
  if (what == "--help" || what == "-h") return fmt::print("{}", kHelp), 0;
  if (what == "--version") return fmt::print("rlx-info {}\n", PACKAGE_VERSION), 0;
  if (what == "version") return show_version(), 0;
  if (what == "fabrics") return show_fabrics(), 0;
  if (what == "topology") return show_topology();
  if (what == "knobs") return show_knobs();
  if (what == "algorithms") return show_algorithms(), 0;
  if (what == "man") return show_man(), 0;
  const std::string near = nearest_word(
      what, {"version", "fabrics", "topology", "knobs", "algorithms", "explain", "man"});
  return usage(fmt::format("there is no \"{}\"{}", what,
                           near.empty() ? "" : "; did you mean " + near + "?"));
}

}  // namespace
}  // namespace rlx

int main(int argc, char** argv) {
  rlx::Status shown;
  try {
    const int exit_code = rlx::run({argv + 1, argv + argc});
    shown = rlx::print_out("");
    if (shown) return exit_code;
  } catch (const std::system_error& e) {  // of fmt
    errno = e.code().value();
    shown = rlx::fail_errno("cannot write standard output");
  }
  fmt::print(stderr, "rlx-info: {}\n", shown.error().text);
  return 1;
}
