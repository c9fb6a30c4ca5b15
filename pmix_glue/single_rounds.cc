// SPDX-License-Identifier: MIT OR Apache-2.0
// libpmix 4.2 (all of 4.2, and 5.0 as read) completes a fence that only waits for a dying rank in
// two steps: it sees the connection break and queues the completion. When a second rank of the
// fence breaks in the same round of the event loop, it queues the completion again, and the second
// one uses what the first has freed: a crash in one of four runs in which a launcher kills ranks
// that are in MPI_Init. No setting of libpmix avoids it, but what is queued always runs before the
// next round; so a round must never hold two broken connections. Its event loop is libevent, and
// libevent asks the kernel by epoll_wait: this one, which replaces libc's in programs that link the
// server, hands out one event at a time.
#include "pmix_glue/single_rounds.h"

#include <dlfcn.h>
#include <sys/epoll.h>

namespace {

thread_local bool many_at_once = false;

}  // namespace

extern "C" __attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event* events,
                                                                 int max, int timeout) {
  return ::epoll_pwait(fd, events, many_at_once ? max : 1, timeout, nullptr);
}

namespace rlx::pmix {

bool enter_single_rounds() {
  many_at_once = true;
  return ::dlsym(RTLD_DEFAULT, "epoll_wait") == reinterpret_cast<void*>(&::epoll_wait);
}

}  // namespace rlx::pmix
