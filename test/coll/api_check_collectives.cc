// SPDX-License-Identifier: MIT OR Apache-2.0
// The collectives' part of api_check.
#include <algorithm>
#include <cstring>
#include <vector>

#include "test/coll/api_check.h"

void collectives(rlx_comm comm, std::uint64_t n) {
  const auto p = static_cast<std::uint64_t>(g_size);
  const auto me = static_cast<std::uint64_t>(g_rank);
  const int root = g_size - 1;
  const Floats mine = numbers(n, g_rank), sum = sum_of_all(n);
  OK(rlx_barrier(comm));
  Floats out(n, -1);
  for (const rlx_mode mode : {RLX_FAST, RLX_ORDERED, RLX_EXACT}) {
    OK(rlx_all_reduce(mine.data(), out.data(), n, RLX_F32, RLX_SUM, mode, comm));
    CHECK(out == sum);
    Floats in_place = mine;
    OK(rlx_all_reduce(in_place.data(), in_place.data(), n, RLX_F32, RLX_SUM, mode, comm));
    CHECK(in_place == sum);
  }
  std::fill(out.begin(), out.end(), -1.0f);
  OK(rlx_reduce(mine.data(), out.data(), n, RLX_F32, RLX_SUM, RLX_FAST, root, comm));
  CHECK(g_rank != root || out == sum);
  out = g_rank == root ? mine : Floats(n, -1);
  OK(rlx_broadcast(out.data(), n, RLX_F32, root, comm));
  CHECK(out == numbers(n, root));

  Floats all(n * p, -1), want;
  for (int r = 0; r < g_size; ++r) {
    const Floats v = numbers(n, r);
    want.insert(want.end(), v.begin(), v.end());
  }
  OK(rlx_all_gather(mine.data(), all.data(), n, RLX_F32, comm));
  CHECK(all == want);
  std::fill(all.begin(), all.end(), -1.0f);
  OK(rlx_gather(mine.data(), all.data(), n, RLX_F32, root, comm));
  CHECK(g_rank != root || all == want);
  OK(rlx_scatter(want.data(), out.data(), n, RLX_F32, root, comm));
  CHECK(out == mine);

  const Floats long_mine = numbers(n * p, g_rank), long_sum = sum_of_all(n * p);
  OK(rlx_reduce_scatter(long_mine.data(), out.data(), n, RLX_F32, RLX_SUM, RLX_FAST, comm));
  CHECK(std::equal(out.begin(), out.end(), long_sum.begin() + static_cast<std::ptrdiff_t>(me * n)));
  OK(rlx_all_to_all(long_mine.data(), all.data(), n, RLX_F32, comm));
  for (int r = 0; r < g_size; ++r) {
    const Floats theirs = numbers(n * p, r);
    for (std::uint64_t i = 0; i < n; ++i)
      CHECK(all[static_cast<std::uint64_t>(r) * n + i] == theirs[me * n + i]);
  }
}

// Numbers of elements differ by rank and `shift`; gaps of one element between blocks stay
// untouched.
void v_collectives(rlx_comm comm, std::uint64_t shift) {
  const auto p = static_cast<std::size_t>(g_size);
  std::vector<std::uint64_t> counts(p), displs(p);
  std::uint64_t end = 0;
  for (std::size_t r = 0; r < p; ++r)
    counts[r] = (r * 5 + shift) % 7, displs[r] = end, end += counts[r] + 1;
  const auto n_mine = counts[static_cast<std::size_t>(g_rank)];
  const Floats mine = numbers(n_mine, g_rank);
  const auto right = [&](const Floats& all) {
    for (std::size_t r = 0; r < p; ++r) {
      const Floats v = numbers(counts[r], static_cast<int>(r));
      for (std::uint64_t i = 0; i < counts[r]; ++i)
        if (all[displs[r] + i] != v[i]) return false;
      if (all[displs[r] + counts[r]] != -1) return false;
    }
    return true;
  };
  Floats all(end, -1);
  OK(rlx_all_gatherv(mine.data(), all.data(), counts.data(), displs.data(), RLX_F32, comm));
  CHECK(right(all));
  Floats at_root(end, -1);
  OK(rlx_gatherv(mine.data(), n_mine, at_root.data(), counts.data(), displs.data(), RLX_F32, 0,
                 comm));
  CHECK(g_rank != 0 || right(at_root));
  Floats back(n_mine, -1);
  OK(rlx_scatterv(at_root.data(), counts.data(), displs.data(), back.data(), n_mine, RLX_F32, 0,
                  comm));
  CHECK(back == mine);

  // Rank s sends s + d elements to rank d.
  std::vector<std::uint64_t> to(p), to_at(p), from(p), from_at(p);
  std::uint64_t n_to = 0, n_from = 0;
  for (std::size_t r = 0; r < p; ++r) {
    to[r] = from[r] = static_cast<std::uint64_t>(g_rank) + r + shift;
    to_at[r] = n_to, n_to += to[r];
    from_at[r] = n_from, n_from += from[r];
  }
  std::vector<std::int32_t> send(n_to), got(n_from, -1);
  for (std::size_t r = 0; r < p; ++r)
    for (std::uint64_t i = 0; i < to[r]; ++i)
      send[to_at[r] + i] = g_rank * 10000 + static_cast<int>(r) * 100 + static_cast<int>(i);
  OK(rlx_all_to_allv(send.data(), to.data(), to_at.data(), got.data(), from.data(), from_at.data(),
                     RLX_I32, comm));
  for (std::size_t r = 0; r < p; ++r)
    for (std::uint64_t i = 0; i < from[r]; ++i)
      CHECK(got[from_at[r] + i] ==
            static_cast<int>(r) * 10000 + g_rank * 100 + static_cast<int>(i));
}

// Other counts may begin before the call with the last ones has ended.
void v_collectives_overlapping(rlx_comm comm) {
  const auto p = static_cast<std::size_t>(g_size);
  constexpr std::size_t kN = 6;
  std::vector<Floats> in, out;
  std::vector<std::vector<std::uint64_t>> counts, displs;
  std::vector<rlx_request> requests(kN);
  for (std::size_t k = 0; k < kN; ++k) {
    const std::uint64_t n = k / 2 + 1;
    in.push_back(numbers(n, g_rank + static_cast<int>(k)));
    out.emplace_back(n * p, -1.0f);
    counts.emplace_back(p, n);
    displs.emplace_back();
    for (std::size_t r = 0; r < p; ++r) displs.back().push_back(r * n);
  }
  for (std::size_t k = 0; k < kN; ++k)
    OK(rlx_iall_gatherv(in[k].data(), out[k].data(), counts[k].data(), displs[k].data(), RLX_F32,
                        comm, &requests[k]));
  counts.clear(), displs.clear();  // read before the calls returned
  OK(rlx_wait_all(kN, requests.data(), nullptr));
  for (std::size_t k = 0; k < kN; ++k)
    for (std::size_t r = 0; r < p; ++r) {
      const Floats v = numbers(k / 2 + 1, static_cast<int>(r + k));
      CHECK(std::equal(v.begin(), v.end(),
                       out[k].begin() + static_cast<std::ptrdiff_t>(r * v.size())));
    }
}

void pool_memory(rlx_comm comm) {
  for (const std::uint64_t n : {1, 5000, 300000}) {
    void* memory[2] = {};
    for (auto& m : memory) OK(rlx_alloc(n * sizeof(float), &m));
    auto* in = static_cast<float*>(memory[0]);
    auto* out = static_cast<float*>(memory[1]);
    const Floats mine = numbers(n, g_rank), sum = sum_of_all(n);
    for (int round = 0; round < 3; ++round) {
      std::copy(mine.begin(), mine.end(), in);
      std::fill(out, out + n, -1.0f);
      OK(rlx_all_reduce(in, out, n, RLX_F32, RLX_SUM, round == 1 ? RLX_EXACT : RLX_FAST, comm));
      CHECK(std::equal(out, out + n, sum.begin()));
      OK(rlx_all_reduce(in, in, n, RLX_F32, RLX_SUM, RLX_FAST, comm));
      CHECK(std::equal(in, in + n, sum.begin()));
    }
    // One rank in the pool, the others in private memory.
    Floats priv = mine;
    std::copy(mine.begin(), mine.end(), in);
    OK(rlx_all_reduce(g_rank ? priv.data() : in, out, n, RLX_F32, RLX_SUM, RLX_FAST, comm));
    CHECK(std::equal(out, out + n, sum.begin()));
    for (auto& m : memory) OK(rlx_free(m));
  }
}

// k leaves on one rank, or spread over all: the same bits, which no order of float additions gives.
void exact_leaves(rlx_comm comm) {
  constexpr int kLeaves = 12;
  constexpr std::uint64_t kN = 257;
  const auto leaf = [](int l) {
    Floats v(kN);
    for (std::uint64_t i = 0; i < kN; ++i)
      v[i] = static_cast<float>((l % 3 == 0 ? 1e12 : 1e-7) * (l % 2 ? -1 : 1) *
                                static_cast<double>(i + 1 + static_cast<unsigned>(l)));
    return v;
  };
  Floats alone(kN), spread(kN);
  rlx_exact sum = nullptr;
  OK(rlx_exact_create(kN, &sum));
  if (g_rank == 0)
    for (int l = 0; l < kLeaves; ++l) OK(rlx_exact_add(sum, leaf(l).data()));
  OK(rlx_exact_all_reduce(sum, alone.data(), comm));
  for (int l = g_rank; l < kLeaves; l += g_size) OK(rlx_exact_add(sum, leaf(l).data()));
  OK(rlx_exact_all_reduce(sum, spread.data(), comm));
  CHECK(std::memcmp(alone.data(), spread.data(), kN * sizeof(float)) == 0);
  for (std::uint64_t i = 0; i < kN; ++i) {
    // __float128 holds these sums exactly.
    __float128 want = 0;
    for (int l = 0; l < kLeaves; ++l) want += leaf(l)[i];
    CHECK(alone[i] == static_cast<float>(want));
  }
  OK(rlx_exact_free(&sum));
}
