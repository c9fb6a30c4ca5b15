// SPDX-License-Identifier: MIT OR Apache-2.0
// A job that checks the C interface from the inside: run by test_launch.cc with several numbers of
// ranks, fabrics and launchers. Prints "api_check ok P" on rank 0; a wrong result ends the rank
// with a line and exit code 1.
#include "test/coll/api_check.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace {

void messages_in_a_ring(rlx_comm comm) {
  const int next = (g_rank + 1) % g_size, previous = (g_rank + g_size - 1) % g_size;
  for (const std::uint64_t n : {0, 1, 3, 100, 5000, 40000, 1 << 20}) {
    const Floats mine = numbers(n, g_rank);
    Floats theirs(n, -1);
    rlx_status status;
    OK(rlx_sendrecv(mine.data(), n, RLX_F32, next, 5, theirs.data(), n, RLX_F32, previous, 5, comm,
                    &status));
    CHECK(theirs == numbers(n, previous));
    CHECK(status.source == previous && status.tag == 5 && status.n_bytes == n * sizeof(float));
  }
}

// Wildcards keep the order of each sender, whatever the tags.
void wildcards_and_order(rlx_comm comm) {
  constexpr int kEach = 50;
  if (g_rank != 0) {
    for (int i = 0; i < kEach; ++i) {
      const std::int32_t value[2] = {g_rank, i};
      OK(rlx_send(value, 2, RLX_I32, 0, i % 7, comm));
    }
    return;
  }
  std::vector<int> next(static_cast<std::size_t>(g_size), 0);
  for (int i = 0; i < kEach * (g_size - 1); ++i) {
    std::int32_t value[2] = {-1, -1};
    rlx_status status;
    OK(rlx_recv(value, 2, RLX_I32, RLX_ANY_SOURCE, RLX_ANY_TAG, comm, &status));
    CHECK(status.source == value[0] && status.tag == value[1] % 7);
    CHECK(value[1] == next[static_cast<std::size_t>(value[0])]++);
  }
}

void probes_truncation_cancel(rlx_comm comm) {
  if (g_rank == 0) {
    const Floats ten = numbers(10, 0);
    OK(rlx_send(ten.data(), 10, RLX_F32, g_size - 1, 900, comm));
    OK(rlx_send(ten.data(), 10, RLX_F32, g_size - 1, 900, comm));
  }
  if (g_rank == g_size - 1) {
    rlx_status status;
    OK(rlx_probe(0, RLX_ANY_TAG, comm, &status));
    CHECK(status.n_bytes == 40 && status.tag == 900 && status.source == 0);
    Floats into(10);
    CHECK(rlx_recv(into.data(), 9, RLX_F32, 0, 900, comm, &status) == RLX_ERR_TRUNCATED);
    OK(rlx_recv(into.data(), 10, RLX_F32, 0, 900, comm, &status));
    CHECK(into == numbers(10, 0));
    int flag = 1;
    OK(rlx_iprobe(RLX_ANY_SOURCE, 900, comm, &flag, &status));
    CHECK(flag == 0);
    rlx_request request = nullptr;
    OK(rlx_irecv(into.data(), 10, RLX_F32, RLX_ANY_SOURCE, 77, comm, &request));
    OK(rlx_cancel(request));
    CHECK(rlx_wait(&request, &status) == RLX_ERR_CANCELLED && status.cancelled == 1 && !request);
  }
}

void requests_any_some_all(rlx_comm comm) {
  constexpr int kN = 16;
  const int peer = g_size - 1 - g_rank;
  std::vector<std::int64_t> out(kN), in(kN, -1);
  std::iota(out.begin(), out.end(), g_rank * 1000);
  std::vector<rlx_request> requests;
  for (int i = 0; i < kN; ++i) {
    requests.push_back(nullptr);
    OK(rlx_irecv(&in[static_cast<std::size_t>(i)], 1, RLX_I64, peer, i, comm, &requests.back()));
  }
  std::vector<rlx_request> sends(kN);
  for (int i = kN - 1; i >= 0; --i)
    OK(rlx_isend(&out[static_cast<std::size_t>(i)], 1, RLX_I64, peer, i, comm,
                 &sends[static_cast<std::size_t>(i)]));
  int index = -1, n_done = 0;
  rlx_status status;
  OK(rlx_wait_any(kN, requests.data(), &index, &status));
  CHECK(index >= 0 && !requests[static_cast<std::size_t>(index)] && status.tag == index);
  std::vector<int> indices(kN);
  OK(rlx_wait_some(kN, requests.data(), &n_done, indices.data(), nullptr));
  CHECK(n_done >= 1);
  OK(rlx_wait_all(kN, requests.data(), nullptr));
  OK(rlx_wait_all(kN, sends.data(), nullptr));
  for (int i = 0; i < kN; ++i) CHECK(in[static_cast<std::size_t>(i)] == peer * 1000 + i);
  OK(rlx_wait_any(kN, requests.data(), &index, nullptr));
  CHECK(index == RLX_UNDEFINED);
  OK(rlx_wait_some(kN, requests.data(), &n_done, indices.data(), nullptr));
  CHECK(n_done == RLX_UNDEFINED);
  int done = 0;
  OK(rlx_test_all(kN, requests.data(), &done, nullptr));
  CHECK(done == 1);
}

// A communicator that a message still needs stays, and so does the message.
void freeing_what_is_in_use(rlx_comm comm) {
  rlx_comm other = nullptr;
  OK(rlx_comm_dup(comm, &other));
  std::int32_t out = 5, in = -1;
  rlx_request receive = nullptr, send = nullptr;
  OK(rlx_irecv(&in, 1, RLX_I32, g_rank, 1, other, &receive));
  CHECK(refused(rlx_comm_free(&other), "1 message is pending") && other);
  OK(rlx_isend(&out, 1, RLX_I32, g_rank, 1, other, &send));
  OK(rlx_wait(&send, nullptr));
  rlx_status status;
  OK(rlx_wait(&receive, &status));
  CHECK(in == 5 && status.source == g_rank);
  OK(rlx_comm_free(&other));
}

// Many collectives of two communicators and messages under way at once, finished in another order.
void overlapping(rlx_comm comm) {
  rlx_comm other = nullptr;
  OK(rlx_comm_dup(comm, &other));
  constexpr int kN = 12;
  std::vector<Floats> in, out;
  std::vector<rlx_request> requests(2 * kN);
  for (int i = 0; i < 2 * kN; ++i) {
    const auto n = static_cast<std::uint64_t>(1 + i * i * 97);
    in.push_back(numbers(n, g_rank + i));
    out.emplace_back(n, -1.0f);
  }
  for (int i = 0; i < 2 * kN; ++i) {
    const auto k = static_cast<std::size_t>(i);
    OK(rlx_iall_reduce(in[k].data(), out[k].data(), in[k].size(), RLX_F32, RLX_SUM, RLX_FAST,
                       i % 2 ? comm : other, &requests[k]));
  }
  std::int32_t token = g_rank, got = -1;
  OK(rlx_sendrecv(&token, 1, RLX_I32, (g_rank + 1) % g_size, 3, &got, 1, RLX_I32, RLX_ANY_SOURCE, 3,
                  comm, nullptr));
  CHECK(got == (g_rank + g_size - 1) % g_size);
  for (int i = 2 * kN - 1; i >= 0; --i)
    OK(rlx_wait(&requests[static_cast<std::size_t>(i)], nullptr));
  for (int i = 0; i < 2 * kN; ++i) {
    const auto k = static_cast<std::size_t>(i);
    Floats sum(in[k].size(), 0);
    for (int r = 0; r < g_size; ++r) {
      const Floats v = numbers(sum.size(), r + i);
      for (std::size_t e = 0; e < sum.size(); ++e) sum[e] += v[e];
    }
    CHECK(out[k] == sum);
  }
  OK(rlx_comm_free(&other));
  CHECK(!other);
}

void splits(rlx_comm comm) {
  rlx_comm part = nullptr;
  const int colour = g_rank % 2;
  OK(rlx_comm_split(comm, colour, -g_rank, &part));
  const int n_same = (g_size + 1 - colour) / 2;
  CHECK(rlx_comm_size(part) == n_same);
  // Keys reverse the order.
  std::vector<std::int32_t> world_ranks(static_cast<std::size_t>(n_same), -1);
  OK(rlx_all_gather(&g_rank, world_ranks.data(), 1, RLX_I32, part));
  for (int i = 1; i < n_same; ++i)
    CHECK(world_ranks[static_cast<std::size_t>(i)] ==
          world_ranks[static_cast<std::size_t>(i - 1)] - 2);
  CHECK(world_ranks[static_cast<std::size_t>(rlx_comm_rank(part))] == g_rank);
  // The same tag in two communicators does not mix.
  if (rlx_comm_size(part) >= 2 && rlx_comm_rank(part) < 2) {
    const int peer = 1 - rlx_comm_rank(part);
    std::int32_t in_world = 1, in_part = 2, got = 0;
    rlx_request requests[2];
    OK(rlx_isend(&in_world, 1, RLX_I32, world_ranks[static_cast<std::size_t>(peer)], 4, comm,
                 &requests[0]));
    OK(rlx_isend(&in_part, 1, RLX_I32, peer, 4, part, &requests[1]));
    rlx_status status;
    OK(rlx_recv(&got, 1, RLX_I32, RLX_ANY_SOURCE, 4, part, &status));
    CHECK(got == 2 && status.source == peer);
    OK(rlx_recv(&got, 1, RLX_I32, RLX_ANY_SOURCE, 4, comm, &status));
    CHECK(got == 1 && status.source == world_ranks[static_cast<std::size_t>(peer)]);
    OK(rlx_wait_all(2, requests, nullptr));
  }
  OK(rlx_comm_free(&part));
  OK(rlx_comm_split(comm, g_rank == 0 ? RLX_UNDEFINED : 0, 0, &part));
  CHECK((part == nullptr) == (g_rank == 0));
  if (part) OK(rlx_comm_free(&part));
  // More communicators than the shared-memory wire has channels, all working.
  std::vector<rlx_comm> many(70);
  for (auto& c : many) OK(rlx_comm_dup(comm, &c));
  for (auto& c : many) {
    std::int32_t one = 1, sum = 0;
    OK(rlx_all_reduce(&one, &sum, 1, RLX_I32, RLX_SUM, RLX_FAST, c));
    CHECK(sum == g_size);
    OK(rlx_comm_free(&c));
  }
}

// Wrong arguments are refused on the spot and leave everything usable.
void refusals(rlx_comm comm) {
  float x = 0;
  CHECK(refused(rlx_init(), "twice"));
  CHECK(refused(rlx_send(&x, 1, RLX_F32, g_size, 0, comm), "dest"));
  CHECK(refused(rlx_send(&x, 1, RLX_F32, 0, -5, comm), "tag"));
  CHECK(refused(rlx_send(nullptr, 1, RLX_F32, 0, 0, comm), "NULL"));
  CHECK(refused(rlx_send(&x, UINT64_MAX / 2, RLX_F64, 0, 0, comm), "do not fit"));
  CHECK(refused(rlx_all_reduce(&x, &x, 1, static_cast<rlx_dtype>(77), RLX_SUM, RLX_FAST, comm),
                "77"));
  CHECK(refused(rlx_all_reduce(&x, &x, 1, RLX_F32, RLX_BOR, RLX_FAST, comm), "bor"));
  CHECK(refused(rlx_broadcast(&x, 1, RLX_F32, -1, comm), "root"));
  CHECK(refused(rlx_barrier(nullptr), "NULL"));
  std::vector<float> some(static_cast<std::size_t>(2 * g_size) + 1);
  CHECK(
      refused(rlx_all_reduce(&some[0], &some[1], 2, RLX_F32, RLX_SUM, RLX_FAST, comm), "overlap"));
  CHECK(refused(rlx_all_to_all(&some[0], &some[0], 1, RLX_F32, comm), "overlap"));
  if (g_size > 1)
    CHECK(refused(rlx_all_gather(&some[(g_rank + 1) % g_size], &some[0], 1, RLX_F32, comm),
                  "overlap"));
  int not_a_comm = 0;
  CHECK(refused(rlx_barrier(reinterpret_cast<rlx_comm>(&not_a_comm)), "not a communicator"));
  rlx_comm world = rlx_world();
  CHECK(refused(rlx_comm_free(&world), "world"));
  OK(rlx_barrier(comm));
}

}  // namespace

int main() {
  if (rlx_init() != RLX_SUCCESS) {
    std::fprintf(stderr, "rlx_init: %s\n", rlx_error_text());
    return 1;
  }
  const rlx_comm world = rlx_world();
  g_rank = rlx_comm_rank(world), g_size = rlx_comm_size(world);
  CHECK(rlx_local_size() >= 1 && rlx_local_rank() >= 0 && rlx_local_rank() < rlx_local_size());
  messages_in_a_ring(world);
  wildcards_and_order(world);
  if (g_size > 1) probes_truncation_cancel(world);
  requests_any_some_all(world);
  for (const std::uint64_t n : {0, 1, g_size - 1, g_size + 1, 1000, 70000}) collectives(world, n);
  for (const std::uint64_t shift : {0, 0, 3, 0, 40000}) v_collectives(world, shift);
  v_collectives_overlapping(world);
  overlapping(world);
  freeing_what_is_in_use(world);
  splits(world);
  pool_memory(world);
  exact_leaves(world);
  refusals(world);
  OK(rlx_finalize());
  CHECK(rlx_initialized() == 0);
  CHECK(refused(rlx_init(), "a process joins its job once"));
  CHECK(rlx_initialized() == 0 && !rlx_world());
  if (g_rank == 0) std::printf("api_check ok %d\n", g_size);
  return 0;
}
