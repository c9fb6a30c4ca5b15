// SPDX-License-Identifier: MIT OR Apache-2.0
// The Bootstrap of a rank that a PMIx server hosts: ours, Open MPI's mpirun, prterun, srun.
#pragma once

#include <memory>

#include "base/bootstrap.h"
#include "base/result.h"

namespace rlx::pmix {

// Connects to the server that PMIX_NAMESPACE and its companions in the environment name. One a
// process. Only Init, Put, Commit, Fence, Get, Abort, Finalize and events are used: what every
// server has.
Result<std::unique_ptr<Bootstrap>> connect_client();

}  // namespace rlx::pmix
