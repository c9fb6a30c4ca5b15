// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/result.h"

#include <cerrno>
#include <system_error>

namespace rlx {

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalid:
      return "invalid";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kUnreachable:
      return "unreachable";
    case Code::kAgain:
      return "again";
    case Code::kTimeout:
      return "timeout";
    case Code::kPeerFailed:
      return "peer failed";
    case Code::kMismatch:
      return "mismatch";
    case Code::kTruncated:
      return "truncated";
    case Code::kCancelled:
      return "cancelled";
    case Code::kNoMemory:
      return "no memory";
    case Code::kSystem:
      return "system";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

tl::unexpected<Error> fail_errno(int error_number, const std::string& what) {
  const Code code = error_number == ENOMEM ? Code::kNoMemory : Code::kSystem;
  return fail(code, what + ": " + std::generic_category().message(error_number));
}

tl::unexpected<Error> fail_errno(const std::string& what) { return fail_errno(errno, what); }

}  // namespace rlx
