// SPDX-License-Identifier: MIT OR Apache-2.0
// PMIx status codes to our errors and back: the only place that maps them.
#pragma once

#include <pmix_common.h>

#include <string>

#include "base/result.h"

namespace rlx::pmix {

Code code_of(pmix_status_t status);
// `what` and libpmix's word for `status`: "PMIx_Init: UNREACHABLE".
tl::unexpected<Error> fail_pmix(pmix_status_t status, const std::string& what);
pmix_status_t status_of(Code code);

}  // namespace rlx::pmix
