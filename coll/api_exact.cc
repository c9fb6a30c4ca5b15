// SPDX-License-Identifier: MIT OR Apache-2.0
// The C interface: exact sums over leaves. Each rank keeps an exact partial sum (kernels/exact.h);
// reducing them is one exchange of terms and one of results, built from the collectives.
#include <algorithm>
#include <vector>

#include "coll/api.h"
#include "kernels/exact.h"

struct rlx_exact_s {
  explicit rlx_exact_s(std::uint64_t count) : sum(rlx::Dtype::f32, count) {}
  rlx::kernels::ExactAccumulator sum;
};

namespace rlx::api {
namespace {

Status run(Communicator& comm, Coll coll, Dtype dtype, Op op, const void* in, void* out,
           std::uint64_t count) {
  return comm.collectives().run(
      {.coll = coll, .dtype = dtype, .op = op, .count = count, .in = in, .out = out},
      World::deadline());
}

// Element e belongs to rank e / block, which gets all ranks' terms of its block, rounds their sum
// once, and gives the result to everybody. Moves 8 * n_terms + 4 bytes an element.
Status all_reduce(kernels::ExactAccumulator& sum, float* out, Communicator& comm) {
  const auto p = static_cast<std::uint64_t>(comm.size());
  std::uint64_t facts[2] = {sum.n_terms(), sum.count()}, most[2] = {};
  RLX_TRY(run(comm, Coll::all_reduce, Dtype::u64, Op::max, facts, most, 2));
  // A rank with fewer elements than another learns it here; the others see it in the mismatch that
  // follows.
  if (most[1] != sum.count())
    return fail(Code::kMismatch,
                fmt::format("rlx_exact_all_reduce: {} elements here, {} on another rank",
                            sum.count(), most[1]));
  const std::uint64_t block = (sum.count() + p - 1) / p,
                      n_terms = std::max<std::uint64_t>(most[0], 1);
  std::vector<double> mine(p * block * n_terms, -0.0), theirs(mine.size());
  for (std::uint64_t r = 0; r < p; ++r) {
    const std::uint64_t begin = std::min(r * block, sum.count()),
                        n = std::min(block, sum.count() - begin);
    // copy_terms packs runs of n; a short last block leaves its tail unused on every rank alike.
    if (n > 0) sum.copy_terms(begin, n, n_terms, mine.data() + r * block * n_terms);
  }
  RLX_TRY(run(comm, Coll::all_to_all, Dtype::f64, Op::sum, mine.data(), theirs.data(),
              block * n_terms));
  const std::uint64_t begin =
      std::min(static_cast<std::uint64_t>(comm.rank()) * block, sum.count());
  const std::uint64_t n_mine = std::min(block, sum.count() - begin);
  std::vector<float> rounded(block), all(p * block);
  if (n_mine > 0) {
    std::vector<const void*> terms;
    for (std::uint64_t r = 0; r < p; ++r)
      for (std::uint64_t t = 0; t < n_terms; ++t)
        terms.push_back(theirs.data() + r * block * n_terms + t * n_mine);
    void* const to[] = {rounded.data()};
    kernels::exact_sum_n(Dtype::f64, Dtype::f32, to, terms, n_mine);
  }
  RLX_TRY(run(comm, Coll::all_gather, Dtype::f32, Op::sum, rounded.data(), all.data(), block));
  std::copy_n(all.data(), sum.count(), out);
  sum.clear();
  return {};
}

Status check(rlx_exact sum, const void* data, const char* name) {
  if (!sum) return fail(Code::kInvalid, "the rlx_exact is NULL");
  if (!data && sum->sum.count() > 0) return fail(Code::kInvalid, fmt::format("{} is NULL", name));
  return {};
}

}  // namespace
}  // namespace rlx::api

using namespace rlx;
using namespace rlx::api;

extern "C" {

int rlx_exact_create(uint64_t count, rlx_exact* sum) {
  return guarded([&]() -> Status {
    if (!sum) return fail(Code::kInvalid, "rlx_exact_create: the result's address is NULL");
    if (count > UINT64_MAX / sizeof(double) / 4)
      return fail(Code::kNoMemory, fmt::format("rlx_exact_create: {} elements", count));
    *sum = new rlx_exact_s(count);
    return {};
  });
}

int rlx_exact_add(rlx_exact sum, const float* leaf) {
  return guarded([&]() -> Status {
    RLX_TRY(check(sum, leaf, "leaf"));
    sum->sum.add(leaf);
    return {};
  });
}

int rlx_exact_all_reduce(rlx_exact sum, float* out, rlx_comm comm) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(Communicator* const found, communicator(comm));
    RLX_TRY(check(sum, out, "out"));
    return all_reduce(sum->sum, out, *found);
  });
}

int rlx_exact_free(rlx_exact* sum) {
  return guarded([&]() -> Status {
    if (!sum) return fail(Code::kInvalid, "rlx_exact_free: the handle's address is NULL");
    delete *sum;
    *sum = nullptr;
    return {};
  });
}

}  // extern "C"
