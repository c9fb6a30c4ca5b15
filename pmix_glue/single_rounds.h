// SPDX-License-Identifier: MIT OR Apache-2.0
// Keeps libpmix 4.2 from crashing when several ranks die at once.
#pragma once

namespace rlx::pmix {

// Call on the thread that may wait for many events at once; every other thread of the process then
// gets them one by one. False when the process's epoll_wait is not ours, as in a program that does
// not export its symbols.
bool enter_single_rounds();

}  // namespace rlx::pmix
