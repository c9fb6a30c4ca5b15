// SPDX-License-Identifier: MIT OR Apache-2.0
// What each layer of fabrics/ costs: nanoseconds of instructions a message (sent to ourselves), and
// half round trips and bandwidth between two ranks on two cores.
//
//   fabric_costs [cpu] [latency] [rate] [bandwidth] [idle]     (default: all)
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <set>

#include "contrib/bench/flag_latency.h"
#include "fabrics/endpoint.h"
#include "fabrics/self.h"
#include "fabrics/shm.h"
#include "fabrics/shm_ring.h"
#include "test/support/fork_world.h"

using namespace rlx;

namespace {

constexpr int kSamples = 41;

Deadline soon() { return Deadline::after_ms(60000); }

// Median over samples of the nanoseconds one call of fn takes.
template <class Fn>
double median_ns(int n_per_sample, Fn&& fn) {
  std::vector<double> samples;
  for (int s = 0; s < kSamples; ++s) {
    const std::int64_t t0 = now_ns();
    for (int i = 0; i < n_per_sample; ++i) fn();
    samples.push_back(static_cast<double>(now_ns() - t0) / n_per_sample);
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

struct CountingSink final : Sink {
  std::uint64_t n = 0;
  void* place(Link, const FrameView&) override { return nullptr; }
  void on_frame(Link, const FrameView& frame) override { n += frame.n_pay; }
  void on_sent(Link, std::uint64_t) override {}
  void on_down(Link, const Error&) override {}
};

std::unique_ptr<Endpoint> open(Bootstrap& boot) {
  auto endpoint = open_endpoint(boot, soon());
  RLX_EXPECT_OK(endpoint);
  return std::move(*endpoint);
}

void must(Endpoint& ep, Request* request) {
  if (request == nullptr) return;
  RLX_EXPECT_OK(ep.wait(request, soon()));
  request->release();
}

void cpu_costs(Bootstrap& boot) {
  constexpr int kN = 20000;
  std::uint64_t out = 1, in = 0;
  auto wire = SelfWire::create(boot.facts());
  RLX_EXPECT_OK(wire);
  CountingSink sink;
  Wire& self = **wire;
  const Frame frame{.type = 1, .tag = 7, .pay = &out, .n_pay = 8};
  fmt::print("cpu: wire, post + progress, 8 B            {:6.1f} ns\n", median_ns(kN, [&] {
               self.post(0, frame);
               self.progress(sink);
             }));
  auto ep = open(boot);
  const auto exchange = [&](int from, std::uint64_t mask) {
    Request* const r = ep->irecv(from, 7, mask, &in, 8);
    ep->isend(0, 7, &out, 8);
    while (!r->done) ep->poll();
    r->release();
  };
  fmt::print("cpu: endpoint, irecv + isend + poll, 8 B   {:6.1f} ns\n",
             median_ns(kN, [&] { exchange(0, kWholeTag); }));
  fmt::print("cpu: the same from any source and tag      {:6.1f} ns\n",
             median_ns(kN, [&] { exchange(kAnySource, kAnyUserTag); }));
  fmt::print("cpu: the same, unexpected                  {:6.1f} ns\n", median_ns(kN, [&] {
               ep->isend(0, 7, &out, 8);
               ep->poll();
               ep->irecv(0, 7, kWholeTag, &in, 8)->release();
             }));
  fmt::print("cpu: poll of nothing                       {:6.1f} ns\n",
             median_ns(kN, [&] { ep->poll(); }));
}

struct Buffers {
  std::vector<char> out, in;
  explicit Buffers(std::uint64_t n) : out(n + 1, 'a'), in(n + 1) {}
};

int rounds_for(std::uint64_t n) {
  return n <= 4096 ? 100 : n <= 65536 ? 20 : n <= (1 << 20) ? 4 : 1;
}

double ping_pong_us(Endpoint& ep, const char* out, char* in, std::uint64_t n) {
  const int peer = 1 - ep.rank();
  const auto round = [&] {
    if (ep.rank() == 0) {
      must(ep, ep.isend(peer, 1, out, n));
      must(ep, ep.irecv(peer, 1, kWholeTag, in, n));
    } else {
      must(ep, ep.irecv(peer, 1, kWholeTag, in, n));
      must(ep, ep.isend(peer, 1, out, n));
    }
  };
  for (int i = 0; i < rounds_for(n); ++i) round();
  return median_ns(rounds_for(n), round) / 2000;
}

// The wire alone: one frame each way.
double raw_ping_pong_us(Wire& wire, int rank, const char* out, std::uint32_t n) {
  CountingSink sink;
  const Frame frame{.type = 1, .tag = 1, .pay = out, .n_pay = n};
  const auto get = [&] {
    while (wire.progress(sink) == 0) {
    }
  };
  return median_ns(100,
                   [&] {
                     if (rank == 0) wire.post(1, frame);
                     get();
                     if (rank == 1) wire.post(0, frame);
                   }) /
         2000;
}

void raw_latencies(Bootstrap& boot) {
  perf::pin_to_nth_allowed_cpu(boot.facts().rank);
  auto wire = ShmWire::create(boot.facts());
  RLX_EXPECT_OK(wire);
  RLX_EXPECT_OK(boot.put((*wire)->address()));
  RLX_EXPECT_OK(boot.fence(soon()));
  const int peer = 1 - boot.facts().rank;
  RLX_EXPECT_OK((*wire)->connect(peer, boot.get(peer).value()));
  Buffers buffers(32768);
  for (std::uint32_t n : {8, 64, 1024, 4096, 32768}) {
    const double us = raw_ping_pong_us(**wire, boot.facts().rank, buffers.out.data(), n);
    if (boot.facts().rank == 0) fmt::print("latency: wire alone {:8} B  {:9.3f} us\n", n, us);
  }
  RLX_EXPECT_OK(boot.finalize(soon()));
}

void latencies(Bootstrap& boot) {
  perf::pin_to_nth_allowed_cpu(boot.facts().rank);
  auto ep = open(boot);
  for (std::uint64_t n : {8, 64, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20}) {
    Buffers buffers(n);
    const double us = ping_pong_us(*ep, buffers.out.data(), buffers.in.data(), n);
    auto out = ep->shm()->pool_alloc(n), in = ep->shm()->pool_alloc(n);
    RLX_EXPECT_OK(out);
    RLX_EXPECT_OK(in);
    std::memset(*out, 1, n);
    std::memset(*in, 1, n);
    const double pool_us = ping_pong_us(*ep, static_cast<char*>(*out), static_cast<char*>(*in), n);
    RLX_EXPECT_OK(ep->shm()->pool_free(*out));
    RLX_EXPECT_OK(ep->shm()->pool_free(*in));
    if (ep->rank() == 0)
      fmt::print("latency: endpoint {:10} B  {:9.3f} us, in the pool {:9.3f} us\n", n, us, pool_us);
  }
  RLX_EXPECT_OK(boot.finalize(soon()));
}

// Windows of 64 messages one way, an empty one back.
void rates(Bootstrap& boot, bool large) {
  perf::pin_to_nth_allowed_cpu(boot.facts().rank);
  auto ep = open(boot);
  const std::vector<std::uint64_t> sizes =
      large ? std::vector<std::uint64_t>{4096, 16384, 65536, 1 << 20, 4 << 20}
            : std::vector<std::uint64_t>{8, 64, 1024};
  for (std::uint64_t n : sizes) {
    const int window = n >= (1 << 20) ? 8 : 64;
    Buffers buffers(n);
    std::vector<Request*> requests;
    const auto round = [&] {
      requests.clear();
      for (int i = 0; i < window; ++i)
        requests.push_back(ep->rank() == 0 ? ep->isend(1, 1, buffers.out.data(), n)
                                           : ep->irecv(0, 1, kWholeTag, buffers.in.data(), n));
      for (Request* request : requests) must(*ep, request);
      if (ep->rank() == 0)
        must(*ep, ep->irecv(1, 2, kWholeTag, nullptr, 0));
      else
        must(*ep, ep->isend(0, 2, nullptr, 0));
    };
    const double ns = median_ns(n >= 65536 ? 2 : 20, round) / window;
    if (ep->rank() == 0)
      fmt::print("{}: {:10} B  {:9.1f} ns a message, {:6.2f} GB/s\n", large ? "bandwidth" : "rate",
                 n, ns, static_cast<double>(n) / ns);
  }
  RLX_EXPECT_OK(boot.finalize(soon()));
}

// CPU time of a rank that waits half a second.
void idle(Bootstrap& boot) {
  auto ep = open(boot);
  char byte = 0;
  const auto cpu_ms = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e3 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e3;
  };
  if (ep->rank() == 0) {
    const double before = cpu_ms();
    must(*ep, ep->irecv(1, 1, kWholeTag, &byte, 1));
    fmt::print("idle: waiting 500 ms took {:.2f} ms of CPU\n", cpu_ms() - before);
  } else {
    const timespec half{0, 500000000};
    nanosleep(&half, nullptr);
    must(*ep, ep->isend(0, 1, &byte, 1));
  }
  RLX_EXPECT_OK(boot.finalize(soon()));
}

int run(int n, const test::RankBody& body) {
  const auto result = test::fork_world(n, body);
  if (!result.ok) fmt::print(stderr, "fabric_costs: {}\n", result.text);
  return result.ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::set<std::string> wanted(argv + 1, argv + argc);
  const auto wants = [&](const char* name) { return wanted.empty() || wanted.count(name) != 0; };
  int failed = 0;
  if (wants("latency") || wants("rate") || wants("bandwidth"))
    fmt::print("flag latency {:.3f} us\n", perf::flag_latency_us());
  if (wants("cpu")) failed |= run(1, cpu_costs);
  if (wants("latency")) failed |= run(2, raw_latencies);
  if (wants("latency")) failed |= run(2, latencies);
  if (wants("rate")) failed |= run(2, [](Bootstrap& boot) { rates(boot, false); });
  if (wants("bandwidth")) failed |= run(2, [](Bootstrap& boot) { rates(boot, true); });
  if (wants("idle")) failed |= run(2, idle);
  return failed;
}
