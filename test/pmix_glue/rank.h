// SPDX-License-Identifier: MIT OR Apache-2.0
// A rank for tests of the PMIx server: `rank MODE [ARG]`. Exits with 0 when all went as the mode
// expects, with 9 and a word when not.
#pragma once

#include <fmt/core.h>
#include <pmix.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "pmix_glue/client.h"

namespace rlx::pmix {

inline constexpr int kLongMs = 30000;

struct Mode {
  const char* name;
  void (*run)(Bootstrap& b, char** arguments);
};
extern const std::vector<Mode> kServiceModes, kJobModes;

inline void check(bool good, const std::string& what) {
  if (good) return;
  fmt::print(stderr, "FAILED {}\n", what);
  std::exit(9);
}
inline void check(const Status& status, const std::string& what) {
  check(status.has_value(), what + ": " + (status ? "" : status.error().text));
}
inline void check_pmix(pmix_status_t status, pmix_status_t wanted, const std::string& what) {
  check(status == wanted,
        fmt::format("{}: {}, not {}", what, PMIx_Error_string(status), PMIx_Error_string(wanted)));
}
inline std::string blob_of(int rank) { return std::string("a\0b", 3) + std::to_string(rank); }

// Meets everyone, checks every blob.
inline void meet(Bootstrap& b) {
  check(b.put(blob_of(b.facts().rank)), "put");
  check(b.fence(Deadline::after_ms(kLongMs)), "fence");
  for (int r = 0; r < b.facts().size; ++r) {
    const auto got = b.get(r);
    check(got && *got == blob_of(r), fmt::format("get {}", r));
  }
}
inline pmix_proc_t proc_of(const Bootstrap& b, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, b.facts().job_id.c_str(), rank);
  return proc;
}
// Alive until the test has seen it, so that nobody takes this end for the first.
[[noreturn]] inline void say_and_wait(const Error& error) {
  fmt::print("error {}: {}\n", code_name(error.code), error.text);
  std::fflush(stdout);
  while (true) ::pause();
}

}  // namespace rlx::pmix
