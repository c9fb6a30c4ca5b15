// SPDX-License-Identifier: MIT OR Apache-2.0
// hello: every rank says who it is, then all add their ranks.
#include <cstdio>
#include <rlx/rlx.hpp>

int main() {
  try {
    const rlx::World world;
    std::printf("rank %d of %d, %d of %d on this host\n", world.rank(), world.size(),
                world.local_rank(), world.local_size());
    const int sum = world.all_reduce(world.rank());
    if (world.rank() == 0) std::printf("the ranks add up to %d\n", sum);
    return sum == world.size() * (world.size() - 1) / 2 ? 0 : 1;
  } catch (const rlx::Error& e) {
    std::fprintf(stderr, "hello: %s\n", e.what());
    return 1;
  }
}
