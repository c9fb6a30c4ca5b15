// SPDX-License-Identifier: MIT OR Apache-2.0
// For tests that run test/pmix_glue/foreign.c, a program of other MPIs.
#pragma once

#include <criterion/criterion.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "test/support/command.h"

namespace rlx::test {

inline bool is_installed(const std::string& program) {
  return run({"sh", "-c", "command -v " + program}).code == 0;
}

inline std::string compile(const std::string& compiler, const std::string& into) {
  const char* source = std::getenv("RLX_SRCDIR");
  const auto result =
      run({compiler, "-o", into,
           std::string(source != nullptr ? source : ".") + "/test/pmix_glue/foreign.c"});
  cr_expect_eq(result.code, 0, "%s", result.text().c_str());
  // Not an assertion, which would leave the caller's directory behind.
  if (result.code != 0) throw std::runtime_error(compiler + " failed");
  return into;
}

}  // namespace rlx::test
