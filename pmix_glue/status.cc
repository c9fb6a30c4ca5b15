// SPDX-License-Identifier: MIT OR Apache-2.0
#include "pmix_glue/status.h"

#include <pmix.h>
#include <pmix_deprecated.h>

namespace rlx::pmix {

Code code_of(pmix_status_t status) {
  switch (status) {
    case PMIX_SUCCESS:
    case PMIX_OPERATION_SUCCEEDED:
      return Code::kOk;
    case PMIX_ERR_TIMEOUT:
      return Code::kTimeout;
    case PMIX_ERR_BAD_PARAM:
    case PMIX_ERR_NOT_FOUND:
    case PMIX_ERR_DUPLICATE_KEY:
      return Code::kInvalid;
    case PMIX_ERR_NOT_SUPPORTED:
      return Code::kUnsupported;
    case PMIX_ERR_UNREACH:
      return Code::kUnreachable;
    case PMIX_ERR_NOMEM:
    case PMIX_ERR_OUT_OF_RESOURCE:
      return Code::kNoMemory;
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_COMM_FAILURE:
    case PMIX_ERR_PARTIAL_SUCCESS:
    case PMIX_ERR_PROC_TERM_WO_SYNC:
    case PMIX_ERR_PROC_ABORTED_BY_SIG:
    case PMIX_ERR_PROC_FAILED_TO_START:
    case PMIX_ERR_EXIT_NONZERO_TERM:
      return Code::kPeerFailed;
    default:
      return Code::kInternal;
  }
}

tl::unexpected<Error> fail_pmix(pmix_status_t status, const std::string& what) {
  return fail(code_of(status), what + ": " + PMIx_Error_string(status));
}

pmix_status_t status_of(Code code) {
  switch (code) {
    case Code::kOk:
      return PMIX_SUCCESS;
    case Code::kInvalid:
      return PMIX_ERR_NOT_FOUND;
    case Code::kUnsupported:
      return PMIX_ERR_NOT_SUPPORTED;
    case Code::kUnreachable:
      return PMIX_ERR_UNREACH;
    case Code::kTimeout:
      return PMIX_ERR_TIMEOUT;
    case Code::kPeerFailed:
      return PMIX_ERR_PROC_TERM_WO_SYNC;
    case Code::kNoMemory:
      return PMIX_ERR_OUT_OF_RESOURCE;
    default:
      return PMIX_ERROR;
  }
}

}  // namespace rlx::pmix
