// SPDX-License-Identifier: MIT OR Apache-2.0
// Measuring, written once: rlx-perf and the programs of its peers (contrib/bench/mpi_perf.cc) give
// it a Lib, so that all of them run the same loops over the same buffers with the same conventions
// and checks.
//
// Conventions (OSU micro-benchmarks and nccl-tests):
// - latency: half a round trip between ranks 0 and 1. bandwidth: a window of messages from 0 to 1,
// one answer a window.
// - collectives: a sample is a batch of back-to-back calls after a barrier, divided by their
// number; its value is
//   the maximum over ranks. Shown: minimum, median and 99th percentile over samples. bytes is the
//   size of the larger buffer of one rank. algbw = bytes / time; busbw = algbw * (moved bytes a
//   rank / bytes), nccl-tests' factor.
// - hot: inputs stay as they are. fresh: every rank rewrites its input before every call, outside
// the timing, so that
//   a peer reads dirty lines, as after a training step; a sample is then one call.
// - every result is verified, after the first call and after the last.
//
// Lib: rank() size() barrier() alloc(n) send(p,n,dest) recv(p,n,src) isend/irecv(p,n,peer,Request*)
//   wait_all(n,Request*) gather(const double*, double*, n) bcast(double*, n) and run(Call&) for
//   collectives.
#pragma once

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "contrib/bench/perf_elements.h"
#include "contrib/bench/perf_options.h"
#include "contrib/bench/perf_values.h"

namespace perf {

struct Stats {
  double min_us = 0, median_us = 0, p99_us = 0;
  int n_samples = 0, batch = 1;
};

// One collective call; bytes are those of one rank's block `n_bytes` (see factor()).
struct Call {
  std::string test;
  const void* in;
  void* out;
  std::uint64_t
      count;  // elements: of the whole vector for reductions and broadcast, of a block otherwise
};

inline double now_us() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<double>(ts.tv_sec) * 1e6 + static_cast<double>(ts.tv_nsec) * 1e-3;
}

inline Stats stats_of(std::vector<double> samples, int batch) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double q) {
    return samples[static_cast<std::size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {samples.front(), at(0.5), at(0.99), static_cast<int>(samples.size()), batch};
}

// Runs `call` in batches; `prepare` comes before every batch, outside the timing. All ranks take
// part.
template <class Lib>
Stats measure(Lib& lib, const Options& options, const std::function<void()>& prepare,
              const std::function<void()>& call) {
  constexpr double kBatchUs = 40;
  for (int i = 0; i < 3; ++i) prepare(), call();
  lib.barrier();
  const double start = now_us();
  int n_trial = 0;
  // The trial's length must not depend on the rank: doubling counts, agreed through rank 0's clock.
  double per_call_us = 0;
  for (int n = 1;; n *= 4) {
    for (int i = 0; i < n; ++i) prepare(), call();
    n_trial += n;
    per_call_us = (now_us() - start) / n_trial;
    double go_on = now_us() - start < 5000 && n_trial < 20000;
    lib.bcast(&go_on, 1);
    if (go_on == 0) break;
  }
  lib.bcast(&per_call_us, 1);
  const int batch = options.fresh ? 1 : std::max(1, static_cast<int>(kBatchUs / per_call_us));
  const double n_wanted = options.seconds * 1e6 / (per_call_us * batch + 5);
  const int n_samples = static_cast<int>(std::clamp(n_wanted, 7.0, 4000.0));
  std::vector<double> mine(static_cast<std::size_t>(n_samples));
  for (auto& sample : mine) {
    prepare();
    lib.barrier();
    const double t0 = now_us();
    for (int i = 0; i < batch; ++i) call();
    sample = (now_us() - t0) / batch;
  }
  std::vector<double> all(mine.size() * static_cast<std::size_t>(lib.size()));
  lib.gather(mine.data(), all.data(), n_samples);
  if (lib.rank() == 0)
    for (std::size_t i = 0; i < mine.size(); ++i)
      for (int r = 1; r < lib.size(); ++r)
        mine[i] = std::max(mine[i], all[static_cast<std::size_t>(r) * mine.size() + i]);
  return stats_of(std::move(mine), batch);
}

template <class Lib>
class Runner {
 public:
  Runner(Lib& lib, const Options& options) : lib_(lib), options_(options) {}

  // Returns the number of sizes whose results were wrong.
  int run() {
    head();
    for (const auto& test : options_.tests) {
      if (lib_.size() < 2 && (test == "latency" || test == "bandwidth")) {
        std::fprintf(stderr, "%s needs 2 ranks: skipped\n", test.c_str());
        continue;
      }
      for (const auto bytes : sizes_of(test)) one(test, bytes);
    }
    return n_wrong_;
  }

 private:
  std::vector<std::uint64_t> sizes_of(const std::string& test) const {
    if (test == "barrier") return {0};
    if (!options_.sizes.empty()) return options_.sizes;
    std::vector<std::uint64_t> sizes;
    const std::uint64_t first = test == "bandwidth" ? 1024 : 8;
    for (std::uint64_t n = first; n <= (std::uint64_t{16} << 20); n *= 4) sizes.push_back(n);
    return sizes;
  }

  void head() const {
    if (lib_.rank() != 0 || options_.json) return;
    std::printf("# %s, %d ranks, %s, %s inputs, %s memory, mode %s, %s values\n",
                lib_.version().c_str(), lib_.size(), options_.dtype.c_str(),
                options_.fresh ? "fresh" : "hot", options_.pool ? "pool" : "private",
                options_.mode.c_str(), options_.values.c_str());
    std::printf("%-15s %10s %11s %11s %11s %9s %9s %7s\n", "test", "bytes", "min us", "median us",
                "p99 us", "algbw GB/s", "busbw", "checked");
  }

  void one(const std::string& test, std::uint64_t bytes) {
    if (test == "latency")
      latency(bytes);
    else if (test == "bandwidth")
      bandwidth(bytes);
    else
      collective(test, bytes);
  }

  void latency(std::uint64_t bytes) {
    Buffer a(lib_, bytes), b(lib_, bytes);
    const int me = lib_.rank();
    fill_bytes(a.data, bytes, me);
    const auto call = [&] {
      if (me == 0) lib_.send(a.data, bytes, 1), lib_.recv(b.data, bytes, 1);
      if (me == 1) lib_.recv(b.data, bytes, 0), lib_.send(a.data, bytes, 0);
    };
    call();
    const bool right = me > 1 || bytes_are(b.data, bytes, 1 - me);
    auto stats = measure(
        lib_, options_, [&] { touch(a.data, bytes); }, call);
    stats.min_us /= 2, stats.median_us /= 2, stats.p99_us /= 2;
    report("latency", bytes, stats, static_cast<double>(bytes), 1, right);
  }

  void bandwidth(std::uint64_t bytes) {
    const int window = bytes >= (1u << 22) ? 8 : 64;
    Buffer a(lib_, bytes), b(lib_, bytes);
    const int me = lib_.rank();
    fill_bytes(a.data, bytes, me);
    std::vector<typename Lib::Request> requests(static_cast<std::size_t>(window));
    char answer = 0;
    const auto call = [&] {
      if (me > 1) return;
      for (auto& request : requests)
        me == 0 ? lib_.isend(a.data, bytes, 1, &request) : lib_.irecv(b.data, bytes, 0, &request);
      lib_.wait_all(window, requests.data());
      me == 0 ? lib_.recv(&answer, 1, 1) : lib_.send(&answer, 1, 0);
    };
    call();
    const bool right = me != 1 || bytes_are(b.data, bytes, 0);
    auto stats = measure(
        lib_, options_, [&] { touch(a.data, bytes); }, call);
    report("bandwidth", bytes, stats, static_cast<double>(bytes) * window, 1, right);
  }

  void collective(const std::string& test, std::uint64_t bytes) {
    const auto p = static_cast<std::uint64_t>(lib_.size());
    const auto size = element_size(options_.dtype);
    const bool in_blocks = is_blocked(test);
    // `bytes` is the larger buffer; block collectives divide it by the ranks.
    const std::uint64_t count =
        test == "barrier" ? 0 : std::max<std::uint64_t>(1, bytes / size / (in_blocks ? p : 1));
    const std::uint64_t n_in = count * (has_blocks_in(test) ? p : 1),
                        n_out = count * (has_blocks_out(test) ? p : 1);
    Buffer in(lib_, n_in * size), out(lib_, n_out * size);
    Call call{test, in.data, out.data, count};
    std::optional<Values> values;
    if (options_.values != "whole" && is_reduction(test))
      values.emplace(options_.values, options_.dtype);
    std::uint64_t round = 0;
    const auto prepare = [&] {
      if (!options_.fresh && round > 0) {
        // stays as it is
      } else if (values) {
        values->fill(in.data, n_in, lib_.rank(), round);
      } else {
        fill(options_.dtype, in.data, n_in, lib_.rank(), round);
      }
      if (test == "broadcast" && (options_.fresh || round == 0))
        fill(options_.dtype, out.data, n_out, lib_.rank(), round);
      ++round;
    };
    prepare();
    lib_.run(call);
    const auto is_right = [&](std::uint64_t of_round) {
      if (!values)
        return check(options_.dtype, test, out.data, count, lib_.rank(), lib_.size(), of_round);
      if (test == "reduce" && lib_.rank() != 0) return true;
      const auto first =
          test == "reduce_scatter" ? static_cast<std::uint64_t>(lib_.rank()) * count : 0;
      return values->check(out.data, first, count, lib_.size(), of_round, options_.mode == "exact");
    };
    bool right = is_right(round - 1);
    const auto stats = measure(lib_, options_, prepare, [&] { lib_.run(call); });
    if (!options_.fresh && test != "broadcast") right = right && is_right(0);
    if (options_.fresh) right = right && is_right(round - 1);
    const double moved = static_cast<double>(std::max(n_in, n_out) * size);
    report(test, static_cast<std::uint64_t>(moved), stats, moved, bus_factor(test, lib_.size()),
           right);
  }

  void report(const std::string& test, std::uint64_t bytes, const Stats& stats, double moved,
              double factor, bool right) {
    double wrong_here = right ? 0 : 1;
    std::vector<double> wrong(static_cast<std::size_t>(lib_.size()));
    lib_.gather(&wrong_here, wrong.data(), 1);
    if (lib_.rank() != 0) return;
    const int n_bad = static_cast<int>(std::count(wrong.begin(), wrong.end(), 1.0));
    n_wrong_ += n_bad > 0;
    const double algbw = stats.median_us > 0 ? moved / stats.median_us * 1e-3 : 0;
    if (options_.json)
      std::printf(
          "{\"lib\": \"%s\", \"ranks\": %d, \"test\": \"%s\", \"bytes\": %llu, \"dtype\": \"%s\", "
          "\"mode\": \"%s\", \"fresh\": %s, \"pool\": %s, \"min_us\": %.4f, \"median_us\": %.4f, "
          "\"p99_us\": %.4f, \"samples\": %d, \"batch\": %d, \"algbw_GBps\": %.4f, \"busbw_GBps\": "
          "%.4f, "
          "\"right\": %s}\n",
          lib_.version().c_str(), lib_.size(), test.c_str(), static_cast<unsigned long long>(bytes),
          options_.dtype.c_str(), options_.mode.c_str(), options_.fresh ? "true" : "false",
          options_.pool ? "true" : "false", stats.min_us, stats.median_us, stats.p99_us,
          stats.n_samples, stats.batch, algbw, algbw * factor, n_bad ? "false" : "true");
    else
      std::printf("%-15s %10llu %11.3f %11.3f %11.3f %9.3f %9.3f %7s\n", test.c_str(),
                  static_cast<unsigned long long>(bytes), stats.min_us, stats.median_us,
                  stats.p99_us, algbw, algbw * factor, n_bad ? "WRONG" : "ok");
    std::fflush(stdout);
  }

  struct Buffer {
    Buffer(Lib& lib, std::uint64_t n) : lib_(lib), data(lib.alloc(std::max<std::uint64_t>(n, 64))) {
      if (data == nullptr) {
        std::fprintf(stderr, "rank %d: no memory for a buffer of %s\n", lib.rank(),
                     gib(static_cast<double>(n)).c_str());
        std::exit(1);
      }
      std::memset(data, 0, std::max<std::uint64_t>(n, 64));
    }
    ~Buffer() { lib_.dealloc(data); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    Lib& lib_;
    void* data;
  };

  void touch(void* data, std::uint64_t n) const {
    if (options_.fresh) fill_bytes(data, n, lib_.rank());
  }

  Lib& lib_;
  const Options& options_;
  int n_wrong_ = 0;
};

}  // namespace perf
