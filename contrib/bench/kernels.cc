// SPDX-License-Identifier: MIT OR Apache-2.0
// Kernels on one core: exact sums beside the default reduction on the same data, every way and
// spread, blocks in the L2 cache. Build and run:
//   make contrib/bench/kernels
//   contrib/bench/kernels --benchmark_repetitions=5 --benchmark_enable_random_interleaving=true
//     --benchmark_report_aggregates_only=true --benchmark_min_time=0.05
// bytes_per_second counts the inputs.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/convert.h"
#include "kernels/exact.h"
#include "kernels/isa.h"
#include "kernels/reduce.h"

namespace {

using namespace rlx;

constexpr std::size_t kSliceBytes = 32 << 10;

struct Free {
  void operator()(void* p) const { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

Memory allocate(std::size_t n_bytes) { return Memory(std::aligned_alloc(4096, n_bytes)); }

// N(0,1) 2^(sigma N(0,1)); sigma 200 stands for exponents that are uniform over 200 bits.
double draw(std::mt19937_64& rng, int sigma) {
  std::normal_distribution<double> normal;
  if (sigma == 200)
    return std::ldexp(1 + std::uniform_real_distribution<double>()(rng),
                      static_cast<int>(rng() % 200) - 100) *
           (rng() % 2 ? 1 : -1);
  return normal(rng) * std::exp2(sigma * normal(rng));
}

void store(Dtype dtype, void* data, std::size_t i, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype) {
    case Dtype::f64:
      static_cast<double*>(data)[i] = value;
      return;
    case Dtype::f16:
      return kernels::f32_to_f16(static_cast<std::uint16_t*>(data) + i, &narrow, 1);
    case Dtype::bf16:
      return kernels::f32_to_bf16(static_cast<std::uint16_t*>(data) + i, &narrow, 1);
    default:
      static_cast<float*>(data)[i] = narrow;
  }
}

void sum(benchmark::State& state, Dtype dtype, bool exact, int ways, int sigma) {
  std::mt19937_64 rng(1);
  const std::size_t count = kSliceBytes / size_of(dtype);
  std::vector<Memory> memory;
  std::vector<const void*> srcs;
  for (int p = 0; p < ways; ++p) {
    memory.push_back(allocate(kSliceBytes));
    srcs.push_back(memory.back().get());
    for (std::size_t i = 0; i < count; ++i) store(dtype, memory.back().get(), i, draw(rng, sigma));
  }
  const Memory out = allocate(kSliceBytes);
  void* const dsts[] = {out.get()};
  for (auto _ : state) {
    if (exact) {
      kernels::exact_sum_n(dtype, dsts, srcs, count);
    } else {
      kernels::reduce_n(dtype, Op::sum, dsts, srcs, count);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(ways * kSliceBytes));
}

void add_sums(Dtype dtype, const std::vector<int>& sigmas) {
  for (const int ways : {2, 4, 8})
    for (const int sigma : sigmas)
      for (const bool exact : {false, true}) {
        const std::string name = std::string(name_of(dtype)) + "/ways:" + std::to_string(ways) +
                                 "/spread:" + std::to_string(sigma) +
                                 (exact ? "/exact" : "/default");
        benchmark::RegisterBenchmark(
            name.c_str(), [=](benchmark::State& state) { sum(state, dtype, exact, ways, sigma); });
      }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::AddCustomContext("instruction set", kernels::isa_name());
  add_sums(Dtype::f32, {0, 2, 6, 200});
  add_sums(Dtype::bf16, {0, 6});
  add_sums(Dtype::f16, {0});
  add_sums(Dtype::f64, {0, 6});
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
