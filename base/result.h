// SPDX-License-Identifier: MIT OR Apache-2.0
// Errors are values: a function that can fail returns Result<T> or Status and changes nothing
// on failure. The text states what was seen, what was wanted, where, and what to do.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace rlx {

// Values are part of the C ABI (include/rlx/rlx.h, rlx_error): append, never renumber.
enum class Code : int {
  kOk = 0,
  kInvalid = 1,      // an argument, a file or the environment is wrong
  kUnsupported = 2,  // valid, but cannot be done here; the text says why
  kUnreachable = 3,  // this peer cannot be reached over this wire
  kAgain = 4,        // full or not ready: try later
  kTimeout = 5,      // the deadline passed; the text names who is missing
  kPeerFailed = 6,   // a rank this operation needs is gone
  kMismatch = 7,     // ranks called different collectives, or the same one with other arguments
  kTruncated = 8,    // a message is longer than the buffer posted for it
  kCancelled = 9,    // the request was cancelled
  kNoMemory = 10,    // memory, a pool or a segment is exhausted
  kSystem = 11,      // the operating system refused; the text carries errno's words
  kInternal = 12,    // a defect of rlx
};

const char* code_name(Code code);

struct [[nodiscard]] Error {
  Code code = Code::kInternal;
  std::string text;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Code code, std::string text) {
  return tl::unexpected<Error>(Error{code, std::move(text)});
}

// kSystem with errno's words behind `what`: "cannot open x: No such file or directory".
tl::unexpected<Error> fail_errno(const std::string& what);
tl::unexpected<Error> fail_errno(int error_number, const std::string& what);

}  // namespace rlx

// Returns the error of `expr` (a Result) from the enclosing function.
#define RLX_TRY(expr)                                                         \
  do {                                                                        \
    if (auto rlx_try_result = (expr); !rlx_try_result)                        \
      return tl::unexpected<::rlx::Error>(std::move(rlx_try_result.error())); \
  } while (false)

// Binds the value of `expr` (a Result) to `var`, or returns its error.
#define RLX_TRY_ASSIGN(var, expr) RLX_TRY_ASSIGN_IMPL(RLX_CONCAT(rlx_tmp_, __LINE__), var, expr)
#define RLX_TRY_ASSIGN_IMPL(tmp, var, expr)                              \
  auto tmp = (expr);                                                     \
  if (!tmp) return tl::unexpected<::rlx::Error>(std::move(tmp.error())); \
  var = std::move(*tmp)
#define RLX_CONCAT(a, b) RLX_CONCAT_IMPL(a, b)
#define RLX_CONCAT_IMPL(a, b) a##b
