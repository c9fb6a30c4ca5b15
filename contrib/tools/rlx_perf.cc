// SPDX-License-Identifier: MIT OR Apache-2.0
// rlx-perf: latency, bandwidth and every collective by size, over the C interface. The loops are
// those that the peers' programs run (contrib/bench/perf_core.h).
#include <rlx/rlx.h>

#include <cstdlib>

#include "base/knobs.h"
#include "contrib/bench/flag_latency.h"
#include "contrib/bench/perf_core.h"

namespace {

void must(int error) {
  if (error == RLX_SUCCESS) return;
  std::fprintf(stderr, "rlx-perf: %s\n", rlx_error_text());
  std::exit(1);
}

class RlxLib {
 public:
  using Request = rlx_request;

  explicit RlxLib(const perf::Options& options)
      : pool_(options.pool),
        mode_(options.mode == "exact"     ? RLX_EXACT
              : options.mode == "ordered" ? RLX_ORDERED
                                          : RLX_FAST),
        type_(type_of(options.dtype)),
        world_(rlx_world()) {}

  int rank() const { return rlx_comm_rank(world_); }
  int size() const { return rlx_comm_size(world_); }
  static std::string version() { return std::string("rlx ") + rlx_version(); }
  void barrier() { must(rlx_barrier(world_)); }
  void* alloc(std::uint64_t n) const {
    void* p = nullptr;
    if (pool_)
      must(rlx_alloc(n, &p));
    else
      p = std::aligned_alloc(4096, (n + 4095) / 4096 * 4096);
    return p;
  }
  void dealloc(void* p) const {
    if (pool_)
      must(rlx_free(p));
    else
      std::free(p);
  }
  void send(const void* p, std::uint64_t n, int dest) {
    must(rlx_send(p, n, RLX_U8, dest, 1, world_));
  }
  void recv(void* p, std::uint64_t n, int source) {
    must(rlx_recv(p, n, RLX_U8, source, 1, world_, nullptr));
  }
  void isend(const void* p, std::uint64_t n, int dest, Request* request) {
    must(rlx_isend(p, n, RLX_U8, dest, 1, world_, request));
  }
  void irecv(void* p, std::uint64_t n, int source, Request* request) {
    must(rlx_irecv(p, n, RLX_U8, source, 1, world_, request));
  }
  void wait_all(int n, Request* requests) { must(rlx_wait_all(n, requests, nullptr)); }
  void gather(const double* mine, double* all, int n) {
    must(rlx_gather(mine, all, static_cast<std::uint64_t>(n), RLX_F64, 0, world_));
  }
  void bcast(double* p, int n) {
    must(rlx_broadcast(p, static_cast<std::uint64_t>(n), RLX_F64, 0, world_));
  }

  void run(const perf::Call& call) {
    const auto& test = call.test;
    const auto n = call.count;
    if (test == "all_reduce")
      must(rlx_all_reduce(call.in, call.out, n, type_, RLX_SUM, mode_, world_));
    else if (test == "barrier")
      must(rlx_barrier(world_));
    else if (test == "broadcast")
      must(rlx_broadcast(call.out, n, type_, 0, world_));
    else if (test == "reduce")
      must(rlx_reduce(call.in, call.out, n, type_, RLX_SUM, mode_, 0, world_));
    else if (test == "all_gather")
      must(rlx_all_gather(call.in, call.out, n, type_, world_));
    else if (test == "reduce_scatter")
      must(rlx_reduce_scatter(call.in, call.out, n, type_, RLX_SUM, mode_, world_));
    else if (test == "all_to_all")
      must(rlx_all_to_all(call.in, call.out, n, type_, world_));
    else if (test == "gather")
      must(rlx_gather(call.in, call.out, n, type_, 0, world_));
    else
      must(rlx_scatter(call.in, call.out, n, type_, 0, world_));
  }

 private:
  static rlx_dtype type_of(const std::string& dtype) {
    constexpr const char* kNames[] = {"i8",  "u8",  "i32",  "u32", "i64",
                                      "u64", "f16", "bf16", "f32", "f64"};
    for (int i = 0; i < 10; ++i)
      if (dtype == kNames[i]) return static_cast<rlx_dtype>(i);
    return RLX_F32;
  }

  bool pool_;
  rlx_mode mode_;
  rlx_dtype type_;
  rlx_comm world_;
};

bool is_first_rank() {
  const char* rank = std::getenv("RLX_RANK");
  if (!rank) rank = std::getenv("PMIX_RANK");
  return !rank || std::string(rank) == "0";
}

// Empty, or what is wrong with the command line.
std::string wrong_words(int argc, char** argv, perf::Options& options) {
  const std::string wrong = perf::parse(argc, argv, options);
  const std::string unknown = perf::kUnknown;
  if (wrong.compare(0, unknown.size(), unknown) != 0) return wrong;
  std::vector<std::string> known = {"--help", "--version"};
  known.insert(known.end(), std::begin(perf::kFlags), std::end(perf::kFlags));
  known.insert(known.end(), std::begin(perf::kOptions), std::end(perf::kOptions));
  const std::string near = rlx::nearest_word(wrong.substr(unknown.size()), known);
  return near.empty() ? wrong : wrong + "; did you mean " + near + "?";
}

// Whether the command line of any rank is wrong; the first such rank says how. All ranks come here,
// so that none ends, and the job with it, before that is said.
bool is_refused(const std::string& wrong) {
  const std::int32_t rank = rlx_comm_rank(rlx_world()), size = rlx_comm_size(rlx_world());
  std::int32_t mine = wrong.empty() ? size : rank, first = size;
  must(rlx_all_reduce(&mine, &first, 1, RLX_I32, RLX_MIN, RLX_FAST, rlx_world()));
  if (first == rank) std::fprintf(stderr, "rlx-perf: %s\nTry 'rlx-perf --help'.\n", wrong.c_str());
  return first < size;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--version") return std::printf("rlx-perf %s\n", rlx_version()) < 0;
    if (arg == "--help" || arg == "-h")
      return std::printf(
                 "Usage: rlxrun -np N rlx-perf [options]\nMeasures this library; see also "
                 "contrib/bench/compare.\n\n%s"
                 "  --help, --version\n\nExit: 0 measured and right, 1 a result was wrong or a "
                 "call failed, 2 usage.\n",
                 perf::kHelp) < 0;
  }
  perf::Options options;
  std::string wrong = wrong_words(argc, argv, options);
  // Before rlx_init: the other ranks sleep in its fence meanwhile.
  if (wrong.empty() && is_first_rank()) {
    const double flag_us = perf::flag_latency_us();
    std::printf(
        options.json ? "{\"flag_us\": %.4f}\n" : "# flag latency between two cores %.3f us\n",
        flag_us);
  }
  must(rlx_init());
  if (wrong.empty()) wrong = perf::too_large(options, rlx_local_size());
  if (is_refused(wrong)) {
    must(rlx_finalize());
    return 2;
  }
  RlxLib lib(options);
  double n_wrong = perf::Runner<RlxLib>(lib, options).run();
  lib.bcast(&n_wrong, 1);
  must(rlx_finalize());
  return n_wrong > 0 ? 1 : 0;
}
