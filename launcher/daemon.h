// SPDX-License-Identifier: MIT OR Apache-2.0
// rlxrun as the daemon of one host: hosts its ranks, and starts and serves the daemons below it.
#pragma once

namespace rlx::launcher {

// The whole process. Its standard input and output are the pipe to the process that started it; or
// it `dials` the head, as an invitation on standard input says.
int run_daemon(bool dials);

}  // namespace rlx::launcher
