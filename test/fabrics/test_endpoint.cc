// SPDX-License-Identifier: MIT OR Apache-2.0
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <algorithm>
#include <numeric>

#include "fabrics/shm.h"
#include "test/fabrics/endpoint_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

// Around every limit: room in a slot, a frame, the eager limit, the window, the slice of a read.
const std::uint64_t kSizes[] = {0,
                                1,
                                7,
                                8,
                                40,
                                41,
                                64,
                                104,
                                105,
                                1000,
                                4096,
                                16383,
                                16384,
                                32767,
                                32768,
                                32769,
                                65536,
                                98305,
                                131072,
                                131073,
                                262080,
                                262144,
                                1 << 20,
                                (1 << 20) + 1,
                                (2 << 20) - 1,
                                2 << 20,
                                5000001};

void check_world(const char* what, const WorldResult& result) {
  cr_assert(result.ok, "%s: %s", what, result.text.c_str());
}

// Each rank sends every size to its right neighbour; half of the receives are posted late.
void all_sizes(Endpoint& ep) {
  const int to = (ep.rank() + 1) % ep.size(), from = (ep.rank() + ep.size() - 1) % ep.size();
  for (const bool late : {false, true}) {
    for (std::uint64_t n : kSizes) {
      const std::vector<char> out = pattern(n, n + ep.rank());
      std::vector<char> in(n + 1, 'x');
      Request* received = late ? nullptr : ep.irecv(from, n, kWholeTag, in.data(), n);
      Request* sent = ep.isend(to, n, out.data(), n);
      if (late) {
        for (int i = 0; i < 1000; ++i) ep.poll();
        received = ep.irecv(from, n, kWholeTag, in.data(), n);
      }
      RLX_EXPECT_OK(ep.wait(received, soon()));
      RLX_EXPECT(received->n_bytes == n && received->source == from && received->tag == n,
                 "{} bytes from {}", received->n_bytes, received->source);
      received->release();
      RLX_EXPECT_OK(finish(ep, sent));
      const std::vector<char> want = pattern(n, n + from);
      RLX_EXPECT(std::equal(want.begin(), want.end(), in.begin()), "{} bytes, late {}", n, late);
      RLX_EXPECT(in[n] == 'x', "overrun at {}", n);
    }
  }
}

}  // namespace

Test(endpoint, every_size_arrives_whole, .timeout = 120) {
  for (int n : {1, 2, 3, 5}) check_world("processes", fork_world(n, with_endpoint(all_sizes)));
  check_world("locals unknown", fork_world(2, with_endpoint(all_sizes), {.know_locals = false}));
  check_world("threads", thread_world(3, with_endpoint(all_sizes)));
}
