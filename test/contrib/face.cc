// SPDX-License-Identifier: MIT OR Apache-2.0
// Calls everything in rlx.hpp once, with any number of ranks, and checks what comes back. Built by
// installed.sh against an installed rlx.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <rlx/rlx.hpp>
#include <vector>

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (false)

namespace {

using Vector = std::vector<int>;

template <class Call>
rlx_error error_of(Call call) {
  try {
    call();
  } catch (const rlx::Error& e) {
    CHECK(e.what()[0] != 0);
    return e.code();
  }
  return RLX_SUCCESS;
}

void elements() {
  static_assert(rlx::kDtype<char> == RLX_U8 && rlx::kDtype<std::byte> == RLX_U8);
  static_assert(rlx::kDtype<long long> == RLX_I64 && rlx::kDtype<const float> == RLX_F32);
  static_assert(!rlx::Element<bool> && !rlx::Element<short> && !rlx::Element<int*>);
  static_assert(!std::constructible_from<rlx::Out, const Vector&>);
  static_assert(!std::constructible_from<rlx::In, Vector>);  // a temporary would be gone
  const struct {
    float value;
    std::uint16_t f16, bf16;
  } table[] = {{0.0F, 0, 0},
               {-0.0F, 0x8000, 0x8000},
               {1.0F, 0x3c00, 0x3f80},
               {-2.5F, 0xc100, 0xc020},
               {65504.0F, 0x7bff, 0x4780},
               {65520.0F, 0x7c00, 0x4780},
               {0x1p-24F, 0x0001, 0x3380},
               {0x1p-25F, 0x0000, 0x3300},
               {1.0009765F, 0x3c01, 0x3f80}};
  for (const auto& row : table) {
    CHECK(rlx::f16(row.value).bits == row.f16);
    CHECK(rlx::bf16(row.value).bits == row.bf16);
  }
  CHECK(static_cast<float>(rlx::f16(0.333251953125F)) == 0.333251953125F);
  CHECK(static_cast<float>(rlx::bf16(-384.0F)) == -384.0F);
}

void messages(const rlx::Comm& comm) {
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  Vector mine(5, comm.rank());
  Vector theirs(8, -1);
  auto receive = comm.irecv(theirs, left, 3);
  auto send = comm.isend(mine, right, 3);
  const auto status = receive.wait();
  send.wait();
  CHECK(status.source == left && status.tag == 3 && status.count<int>() == 5);
  CHECK(theirs[4] == left && theirs[5] == -1 && receive.done());
  CHECK(comm.sendrecv(mine, right, 4, theirs, left, 4).count<int>() == 5);
  CHECK(!comm.iprobe(left, 9));
  auto request = comm.isend(mine, right, 5);
  CHECK(comm.probe(left, 5).n_bytes == 20);
  CHECK(comm.iprobe(rlx::kAnySource, 5)->tag == 5);
  CHECK(comm.recv(theirs).tag == 5);
  while (!request.test()) {
  }
  if (comm.size() > 1) {
    if (comm.rank() == 0) comm.send(mine, 1, 6);
    std::array<int, 2> small{};
    if (comm.rank() == 1) CHECK(error_of([&] { comm.recv(small, 0, 6); }) == RLX_ERR_TRUNCATED);
  }
  auto never = comm.irecv(theirs, left, 77);
  never.cancel();
  CHECK(error_of([&] { never.wait(); }) == RLX_ERR_CANCELLED);
}

void many_requests(const rlx::Comm& comm) {
  const int right = (comm.rank() + 1) % comm.size();
  const int left = (comm.rank() + comm.size() - 1) % comm.size();
  constexpr int kMessages = 5;
  for (int round = 0; round < 4; ++round) {
    std::array<int, kMessages> out{};
    std::array<int, kMessages> in{};
    std::vector<rlx::Request> receives;
    std::vector<rlx::Request> sends;
    for (int i = 0; i < kMessages; ++i) {
      receives.push_back(comm.irecv(std::span(in).subspan(i, 1), left, i));
    }
    for (int i = 0; i < kMessages; ++i) {
      out[i] = 10 * comm.rank() + i;
      sends.push_back(comm.isend(std::span(out).subspan(i, 1), right, i));
    }
    std::size_t n_done = 0;
    if (round == 0) n_done = rlx::wait_all(receives).size();
    if (round == 1) {
      while (!rlx::test_all(receives)) {
      }
      n_done = kMessages;
    }
    if (round == 2) {
      while (const auto one = rlx::wait_any(receives)) n_done += one->status.count<int>();
      CHECK(!rlx::test_any(receives));
    }
    if (round == 3) {
      while (n_done < 2) n_done += rlx::test_some(receives).size();
      for (auto some = rlx::wait_some(receives); !some.empty(); some = rlx::wait_some(receives)) {
        n_done += some.size();
      }
    }
    CHECK(n_done == kMessages);
    for (int i = 0; i < kMessages; ++i) CHECK(in[i] == 10 * left + i);
    rlx::wait_all(sends);
  }
}

void reductions(const rlx::Comm& comm) {
  const int p = comm.size();
  const int all = p * (p - 1) / 2;
  Vector in(3, comm.rank());
  Vector out(3, -1);
  comm.all_reduce(in, out);
  CHECK(out[2] == all);
  comm.iall_reduce(in, out, rlx::Op::max).wait();
  CHECK(out[0] == p - 1);
  out = in;
  comm.all_reduce(out);
  CHECK(out[1] == all);
  out = in;
  comm.iall_reduce(out, rlx::Op::bor).wait();
  CHECK(comm.all_reduce(1) == p);
  CHECK(comm.all_reduce(static_cast<float>(comm.rank()), rlx::Op::avg, rlx::Mode::exact) ==
        static_cast<float>(p - 1) / 2);
  comm.reduce(in, out, p - 1);
  if (comm.rank() == p - 1) CHECK(out[0] == all);
  comm.ireduce(in, out, 0).wait();
  if (comm.rank() == 0) CHECK(out[0] == all);
  Vector blocks(2 * p);
  std::iota(blocks.begin(), blocks.end(), 0);
  Vector mine(2);
  comm.reduce_scatter(blocks, mine);
  CHECK(mine[1] == p * (2 * comm.rank() + 1));
  comm.ireduce_scatter(blocks, mine, rlx::Op::min).wait();
  CHECK(mine[0] == 2 * comm.rank());
  CHECK(error_of([&] { comm.all_reduce(in, mine); }) == RLX_ERR_INVALID);
  std::vector<float> other(3);
  CHECK(error_of([&] { comm.all_reduce(in, other); }) == RLX_ERR_INVALID);
}

void movements(const rlx::Comm& comm) {
  const int p = comm.size();
  const int me = comm.rank();
  comm.barrier();
  comm.ibarrier().wait();
  CHECK(comm.broadcast(me, p - 1) == p - 1);
  Vector data(4, me);
  comm.ibroadcast(data, 0).wait();
  CHECK(data[3] == 0);
  Vector in(2, me);
  Vector out(2 * p);
  comm.all_gather(in, out);
  CHECK(out[2 * p - 1] == p - 1);
  comm.iall_gather(in, out).wait();
  comm.gather(in, out, p - 1);
  comm.igather(in, out).wait();
  if (me == 0) CHECK(out[2 * p - 1] == p - 1);
  std::iota(out.begin(), out.end(), 0);
  comm.scatter(out, in);
  CHECK(in[1] == 2 * me + 1);
  comm.iscatter(out, in, p - 1).wait();
  Vector back(2 * p);
  for (int i = 0; i < 2 * p; ++i) out[i] = me;
  comm.all_to_all(out, back);
  CHECK(back[2 * p - 1] == p - 1 && back[0] == 0);
  comm.iall_to_all(out, back).wait();
}

// Rank r has r + 1 elements of value r.
void uneven(const rlx::Comm& comm) {
  const auto p = static_cast<std::uint64_t>(comm.size());
  const int me = comm.rank();
  std::vector<std::uint64_t> counts(p);
  std::iota(counts.begin(), counts.end(), 1);
  std::vector<std::uint64_t> displs(p);
  std::exclusive_scan(counts.begin(), counts.end(), displs.begin(), std::uint64_t{0});
  const std::uint64_t n = p * (p + 1) / 2;
  Vector in(static_cast<std::size_t>(me) + 1, me);
  for (int form = 0; form < 4; ++form) {
    Vector out(n, -1);
    if (form == 0) comm.all_gatherv(in, out, counts, displs);
    if (form == 1) comm.iall_gatherv(in, out, counts, displs).wait();
    if (form == 2) comm.gatherv(in, out, counts, displs);
    if (form == 3) comm.igatherv(in, out, counts, displs).wait();
    if (form < 2 || me == 0) CHECK(out[n - 1] == comm.size() - 1 && out[0] == 0);
    if (form < 2) {
      Vector mine(in.size(), -1);
      form == 0 ? comm.scatterv(out, counts, displs, mine)
                : (void)comm.iscatterv(out, counts, displs, mine).wait();
      CHECK(mine == in);
    }
  }
  // Everyone sends r + 1 elements to rank r, so rank r receives r + 1 from each.
  Vector to_all(n, me);
  const std::vector<std::uint64_t> in_counts(p, in.size());
  std::vector<std::uint64_t> in_displs(p);
  for (std::uint64_t r = 0; r < p; ++r) in_displs[r] = r * in.size();
  Vector from_all(p * in.size(), -1);
  comm.all_to_allv(to_all, counts, displs, from_all, in_counts, in_displs);
  CHECK(from_all.back() == comm.size() - 1 && from_all[0] == 0);
  comm.iall_to_allv(to_all, counts, displs, from_all, in_counts, in_displs).wait();
  Vector small(1);
  CHECK(error_of([&] { comm.all_gatherv(in, small, counts, displs); }) ==
        (p == 1 ? RLX_SUCCESS : RLX_ERR_INVALID));
}

// A receive that nobody answers holds up no exception.
void exceptions(const rlx::World& world) {
  Vector late(1);
  bool caught = false;
  try {
    const auto request = world.irecv(late, 0, 77);
    throw 1;
  } catch (int) {
    caught = true;
  }
  CHECK(caught);
}

void groups_and_memory(const rlx::World& world) {
  const auto copy = world.dup();
  CHECK(copy.size() == world.size());
  const auto half = world.split(world.rank() % 2, -world.rank());
  CHECK(half && half->all_reduce(1) == half->size());
  CHECK(!world.split(world.rank() == 0 ? RLX_UNDEFINED : 0, 0) == (world.rank() == 0));
  const auto alone = world.split(world.rank(), 0);
  const std::array<std::uint64_t, 1> one{1}, zero{0};
  const std::array<double, 1> numbers{1.5};
  std::array<float, 1> others{};
  CHECK(error_of([&] { alone->gatherv(numbers, others, one, zero); }) == RLX_ERR_INVALID);
  CHECK(error_of([&] { alone->scatterv(numbers, one, zero, others); }) == RLX_ERR_INVALID);
  rlx::Buffer<float> buffer(1000);
  for (float& x : buffer) x = 0.25F;
  world.all_reduce(buffer);
  CHECK(buffer[999] == 0.25F * static_cast<float>(world.size()));
  std::array<float, 2> leaf{1.0F, 1e-30F};
  rlx::ExactSum sum(2);
  sum.add(leaf);
  sum.add(std::array{-1.0F, 0.0F});
  sum.all_reduce(leaf, world);
  CHECK(leaf[0] == 0 && leaf[1] > 0);
  CHECK(error_of([&] { sum.add(std::array{1.0F}); }) == RLX_ERR_INVALID);
  world.progress();
  CHECK(world.local_rank() < world.local_size());
}

}  // namespace

int main() {
  elements();
  {
    const rlx::World world;
    messages(world);
    many_requests(world);
    reductions(world);
    movements(world);
    uneven(world);
    exceptions(world);
    groups_and_memory(world);
    world.barrier();
    if (world.rank() == 0) std::printf("rlx %s: all of rlx.hpp works\n", rlx::version());
  }
  CHECK(error_of([] { const rlx::World again; }) == RLX_ERR_INVALID);
}
