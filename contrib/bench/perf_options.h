// SPDX-License-Identifier: MIT OR Apache-2.0
// The command line of rlx-perf and of its peers' programs.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

#include "base/words.h"
#include "contrib/bench/perf_elements.h"

namespace perf {

struct Options {
  std::vector<std::string> tests = {"latency", "bandwidth", "all_reduce"};
  std::vector<std::uint64_t> sizes;  // empty: each test's own
  std::string dtype = "f32", mode = "fast", values = "whole";
  bool fresh = false, pool = false, json = false;
  double seconds = 0.3;  // aimed at for each size
};

inline std::string gib(double bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g GiB", bytes / static_cast<double>(1u << 30));
  return text;
}

// Empty, or that the sizes need more memory than the host of `n_local` ranks has.
inline std::string too_large(const Options& options, int n_local) {
  if (options.sizes.empty()) return {};
  const auto most =
      static_cast<double>(*std::max_element(options.sizes.begin(), options.sizes.end()));
  const double needed = 2 * most * n_local;
  const double has =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (needed <= has) return {};
  return "--sizes: two buffers of " + gib(most) + " for each of " + std::to_string(n_local) +
         " ranks here are " + gib(needed) + "; this host has " + gib(has);
}

inline bool parse_size(const std::string& text, std::uint64_t& value) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || number < 0) return false;
  const std::string suffix = end;
  const int shift = suffix.empty()  ? 0
                    : suffix == "K" ? 10
                    : suffix == "M" ? 20
                    : suffix == "G" ? 30
                                    : -1;
  if (shift < 0) return false;
  const double bytes = number * static_cast<double>(std::uint64_t{1} << shift);
  if (!(bytes < 0x1p63)) return false;
  value = static_cast<std::uint64_t>(bytes);
  return true;
}

inline constexpr const char* kTests[] = {"latency",    "bandwidth",  "barrier",    "broadcast",
                                         "reduce",     "all_reduce", "all_gather", "reduce_scatter",
                                         "all_to_all", "gather",     "scatter"};

inline constexpr const char* kFlags[] = {"--fresh", "--hot", "--pool", "--private", "--json"};
inline constexpr const char* kOptions[] = {"--tests", "--sizes",  "--dtype",
                                           "--mode",  "--values", "--seconds"};
inline constexpr const char* kUnknown = "unknown option ";

// Returns an empty string, or what is wrong.
inline std::string parse(int argc, char** argv, Options& options) {
  const auto known = [](const std::string& word, const std::vector<std::string>& list) {
    return std::find(list.begin(), list.end(), word) != list.end();
  };
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i], value;
    const auto equals = arg.find('=');
    if (equals != std::string::npos) value = arg.substr(equals + 1), arg.resize(equals);
    const bool flag = known(arg, {std::begin(kFlags), std::end(kFlags)});
    if (!flag && !known(arg, {std::begin(kOptions), std::end(kOptions)})) return kUnknown + arg;
    if (flag && equals != std::string::npos) return arg + " takes no value";
    if (!flag && equals == std::string::npos) {
      if (i + 1 == argc) return arg + " needs a value";
      value = argv[++i];
    }
    if (arg == "--fresh" || arg == "--hot")
      options.fresh = arg == "--fresh";
    else if (arg == "--pool" || arg == "--private")
      options.pool = arg == "--pool";
    else if (arg == "--json")
      options.json = true;
    else if (arg == "--tests") {
      options.tests = rlx::split(value, ',');
      if (value == "all") options.tests.assign(std::begin(kTests), std::end(kTests));
      for (const auto& test : options.tests)
        if (!known(test, {std::begin(kTests), std::end(kTests)}))
          return "--tests: there is no test " + test;
    } else if (arg == "--sizes") {
      options.sizes.clear();
      for (const auto& word : rlx::split(value, ',')) {
        std::uint64_t n = 0;
        if (!parse_size(word, n)) return "--sizes: " + word + " is not a size (8, 4K, 16M, 1G)";
        options.sizes.push_back(n);
      }
    } else if (arg == "--dtype") {
      if (element_size(value) == 0) return "--dtype: there is no type " + value;
      options.dtype = value;
    } else if (arg == "--mode") {
      if (!known(value, {"fast", "ordered", "exact"}))
        return "--mode: fast, ordered or exact, not " + value;
      options.mode = value;
    } else if (arg == "--values") {
      if (!known(value, {"whole", "normal", "spread6", "wide"}))
        return "--values: whole, normal, spread6 or wide, not " + value;
      options.values = value;
    } else if (arg == "--seconds") {
      options.seconds = std::strtod(value.c_str(), nullptr);
      if (!(options.seconds > 0)) return "--seconds: " + value + " is not a positive number";
    }
  }
  if (options.values != "whole" && options.dtype[0] != 'f' && options.dtype != "bf16")
    return "--values " + options.values + " needs a float type, not " + options.dtype;
  return {};
}

inline constexpr const char* kHelp =
    "  --tests LIST     "
    "latency,bandwidth,barrier,broadcast,reduce,all_reduce,all_gather,reduce_scatter,\n"
    "                   all_to_all,gather,scatter or all (default latency,bandwidth,all_reduce)\n"
    "  --sizes LIST     bytes of the larger buffer of a rank: 8,1K,16M (default 8 to 16M by 4)\n"
    "  --dtype TYPE     i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64 (default f32)\n"
    "  --mode MODE      of sums: fast, ordered or exact (default fast)\n"
    "  --values KIND    of sums: whole (0 to 3), normal (N(0,1)), spread6 (times 2^(6 N(0,1))) or\n"
    "                   wide (exponents over 200 bits) (default whole)\n"
    "  --hot, --fresh   inputs untouched, or rewritten by every rank before each call (default "
    "hot)\n"
    "  --private, --pool  buffers from malloc or from rlx_alloc (default private)\n"
    "  --seconds S      time for each size (default 0.3)\n"
    "  --json           one JSON object a line instead of the table\n";

}  // namespace perf
