// SPDX-License-Identifier: MIT OR Apache-2.0
// The endpoint with ranks as threads, for the thread sanitizer, under which Criterion does not run:
// a plain program that prints TAP.
#include <cstdio>

#include "test/fabrics/endpoint_bodies.h"
#include "test/fabrics/endpoint_world.h"

using namespace rlx;
using namespace rlx::test;

int main() {
  struct Case {
    const char* name;
    int n_ranks;
    void (*body)(Endpoint&);
  };
  const Case cases[] = {
      {"every size arrives whole", 3, exchange_all_sizes},
      {"the pool is read directly", 2, exchange_in_the_pool},
      {"messages match in order with wildcards", 4, match_in_order},
      {"contexts are apart", 2, contexts_are_apart},
      {"a short receive is truncated", 2, truncate_on_the_receiver_only},
      {"receives are cancelled and messages probed", 2, cancel_and_probe},
      {"all talk to all", 5, storm},
      {"no ring is lost", 3, sleep_for_everything},
  };
  int n_failed = 0, number = 0;
  std::printf("1..%zu\n", std::size(cases));
  for (const Case& one : cases) {
    const WorldResult result = thread_world(one.n_ranks, with_endpoint(one.body));
    if (!result.ok) std::printf("# %s\n", result.text.c_str());
    std::printf("%sok %d - %s as threads\n", result.ok ? "" : "not ", ++number, one.name);
    n_failed += !result.ok;
  }
  return n_failed != 0;
}
