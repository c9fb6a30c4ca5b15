// SPDX-License-Identifier: MIT OR Apache-2.0
// A peer dies, in every phase: whoever needs it is told within a second, who and where.
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "fabrics/registry.h"
#include "fabrics/shm.h"
#include "test/fabrics/endpoint_world.h"

using namespace rlx;
using namespace rlx::test;

namespace {

const char* const kFabrics[] = {"self,shm", "self,tcp"};
constexpr std::uint64_t kBig = 3 << 20;
// More than a socket or a ring can hold while nobody reads.
constexpr std::uint64_t kHuge = 24 << 20;

[[noreturn]] void die() {
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

void kill_and_wait(pid_t pid) {
  pollfd ended{static_cast<int>(syscall(SYS_pidfd_open, pid, 0)), POLLIN, 0};
  kill(pid, SIGKILL);
  RLX_EXPECT(poll(&ended, 1, 20000) == 1, "process {} does not die", pid);
}

void expect_failure(const Status& status, int rank) {
  RLX_EXPECT(!status && status.error().code == Code::kPeerFailed, "{}",
             status ? "success" : status.error().text);
  const std::string who = fmt::format("rank {} (testhost)", rank);
  RLX_EXPECT(status.error().text.find(who) != std::string::npos, "'{}' does not name {}",
             status.error().text, who);
}

// Rank 1 dies in the middle of what `dying` does; rank 0 goes through `mourning`. Whether the
// bootstrap tells of the death or the wire has to notice: both.
//
// `by_report_only`: sockets that were never connected cannot tell.
void one_dies(const char* what, const std::function<void(Endpoint&)>& dying,
              const std::function<void(Endpoint&)>& mourning, bool by_report_only = false) {
  for (const std::string fabrics : kFabrics)
    for (const bool report : {false, true}) {
      if (by_report_only && !report && fabrics == "self,tcp") continue;
      const auto body = [&](Bootstrap& boot) {
        auto ep = open(boot, fabrics.c_str());
        if (boot.facts().rank == 1) {
          dying(*ep);
          die();
        }
        mourning(*ep);
        // From now on every operation fails at once.
        char byte = 0;
        expect_failure(finish(*ep, ep->isend(1, 1, &byte, 1)), 1);
        expect_failure(finish(*ep, ep->irecv(1, 1, kWholeTag, &byte, 1)), 1);
        expect_failure(finish(*ep, ep->irecv(kAnySource, 1, kWholeTag, &byte, 1)), 1);
        RLX_EXPECT(ep->failed(1) != nullptr && ep->first_failed() == 1, "not marked");
        RLX_EXPECT(ep->failed(0) == nullptr, "we are marked");
        // And we can still talk to ourselves.
        Request* const self = ep->irecv(0, 2, kWholeTag, &byte, 1);
        send(*ep, 0, 2, &byte, 1);
        RLX_EXPECT_OK(finish(*ep, self));
      };
      const auto result =
          fork_world(2, body, {.timeout_ms = 20000, .report_deaths = report, .expect_dead = {1}});
      cr_assert(result.ok, "%s over %s, death %s: %s", what, fabrics.c_str(),
                report ? "reported" : "not reported", result.text.c_str());
    }
}

void at_once(Endpoint&) {}

// How a long message travels.
struct Way {
  const char *what, *fabrics;
  bool by_reading;  // copied from the sender's memory without its doing
};
constexpr Way kWays[] = {{"through the ring", "self,shm", false},
                         {"read by the receiver", "self,shm", true},
                         {"through a socket", "self,tcp", false}};

template <class Ready>
Status poll_until(Endpoint& ep, Ready&& ready) {
  return ep.until(
      [&] {
        ep.poll();
        return ready() ? Turn::kDone : Turn::kMoved;  // no bell rings for it: stay awake
      },
      soon());
}

Turn until_some_came(Endpoint& ep) {
  const bool moved = ep.poll();
  if (ep.pending().at(0).n_moved > 0) return Turn::kDone;
  return moved ? Turn::kMoved : Turn::kIdle;
}

}  // namespace

Test(failure, a_waiting_receive_is_told, .timeout = 120) {
  one_dies("receive", at_once, [](Endpoint& ep) {
    char byte = 0;
    expect_failure(finish(ep, ep.irecv(1, 1, kWholeTag, &byte, 1)), 1);
  });
  one_dies(
      "receive from anyone", at_once,
      [](Endpoint& ep) {
        char byte = 0;
        expect_failure(finish(ep, ep.irecv(kAnySource, 1, kWholeTag, &byte, 1)), 1);
      },
      true);
}

Test(failure, a_waiting_send_is_told, .timeout = 120) {
  one_dies("send without a receive", at_once, [](Endpoint& ep) {
    const std::vector<char> data(kBig);
    expect_failure(finish(ep, ep.isend(1, 1, data.data(), kBig)), 1);
  });
  one_dies(
      "send whose receive was granted",
      [](Endpoint& ep) {
        std::vector<char> into(kHuge);
        Request* const r = ep.irecv(0, 1, kWholeTag, into.data(), kHuge);
        // Part of it has come when we die.
        RLX_EXPECT_OK(ep.until(
            [&] { return ep.poll() && ep.pending().at(0).n_moved > 0 ? Turn::kDone : Turn::kIdle; },
            soon()));
        RLX_EXPECT(!r->done, "already complete");
      },
      [](Endpoint& ep) {
        const std::vector<char> data(kHuge);
        expect_failure(finish(ep, ep.isend(1, 1, data.data(), data.size())), 1);
      });
  one_dies("many sends", at_once, [](Endpoint& ep) {
    std::vector<char> data(1000);
    std::vector<Request*> requests;
    for (int i = 0; i < 20000; ++i)
      if (Request* r = ep.isend(1, i, data.data(), data.size())) requests.push_back(r);
    RLX_EXPECT(!requests.empty(), "all sent");
    for (Request* r : requests) expect_failure(finish(ep, r), 1);
  });
}

// The receiver ends the sender when a part has come: how far a sender comes by itself before it
// dies is for the scheduler to say.
Test(failure, a_sender_dies_in_the_middle_of_a_message, .timeout = 120) {
  auto& sender = shared_number();
  for (const Way& way : kWays) {
    const auto body = [&](Bootstrap& boot) {
      auto ep = open(boot, way.fabrics);
      if (ep->shm() != nullptr) ep->shm()->set_crowded(way.by_reading);
      if (boot.facts().rank == 1) {
        sender = getpid();
        const std::vector<char> data(kHuge);
        RLX_EXPECT_OK(finish(*ep, ep->isend(0, 1, data.data(), kHuge)));
        return;
      }
      std::vector<char> into(kHuge);
      Request* const r = ep->irecv(1, 1, kWholeTag, into.data(), kHuge);
      RLX_EXPECT_OK(ep->until([&] { return until_some_came(*ep); }, soon()));
      kill_and_wait(sender);
      expect_failure(finish(*ep, r), 1);
    };
    const auto result =
        fork_world(2, body, {.timeout_ms = 20000, .report_deaths = false, .expect_dead = {1}});
    cr_assert(result.ok, "%s: %s", way.what, result.text.c_str());
  }
}

Test(failure, a_sender_dies_before_it_is_answered, .timeout = 120) {
  auto& sender = shared_number();
  one_dies(
      "rendezvous without an answer",
      [&](Endpoint& ep) {
        static const std::vector<char> data(kHuge);
        sender = getpid();
        RLX_EXPECT(ep.isend(0, 1, data.data(), kHuge) != nullptr, "sent at once");
        for (;;) ep.poll();
      },
      [&](Endpoint& ep) {
        RLX_EXPECT_OK(ep.until(
            [&] {
              ep.poll();
              return ep.iprobe(1, 1, kWholeTag) ? Turn::kDone : Turn::kIdle;
            },
            soon()));
        kill_and_wait(sender);
        std::vector<char> into(kHuge);
        expect_failure(finish(ep, ep.irecv(1, 1, kWholeTag, into.data(), kHuge)), 1);
      });
}

Test(failure, what_arrived_whole_is_still_received, .timeout = 120) {
  one_dies(
      "eager",
      [](Endpoint& ep) {
        int three = 3;
        RLX_EXPECT_OK(finish(ep, ep.isend(0, 9, &three, sizeof three)));
        RLX_EXPECT_OK(ep.flush(soon()));
      },
      [](Endpoint& ep) {
        int in = 0;
        RLX_EXPECT_OK(ep.until(
            [&] {
              ep.poll();
              return ep.failed(1) != nullptr ? Turn::kDone : Turn::kIdle;
            },
            soon()));
        RLX_EXPECT_OK(finish(ep, ep.irecv(1, 9, kWholeTag, &in, sizeof in)));
        RLX_EXPECT(in == 3, "{}", in);
      });
}

Test(failure, a_rank_that_died_before_we_came_is_known_dead, .timeout = 120) {
  for (const char* fabrics : kFabrics) {
    const auto body = [&](Bootstrap& boot) {
      if (boot.facts().rank != 1) {
        auto ep = open(boot, fabrics);
        char byte = 0;
        expect_failure(finish(*ep, ep->irecv(1, 1, kWholeTag, &byte, 1)), 1);
        return;
      }
      auto wires = make_wires(fabrics, boot.facts());
      RLX_EXPECT_OK(wires);
      auto ep = Endpoint::create(boot.facts(), std::move(*wires));
      RLX_EXPECT_OK(ep);
      RLX_EXPECT_OK(boot.put((*ep)->blob()));
      RLX_EXPECT_OK(boot.fence(soon()));
      die();
    };
    const auto result =
        fork_world(3, body, {.timeout_ms = 30000, .report_deaths = false, .expect_dead = {1}});
    cr_assert(result.ok, "%s: %s", fabrics, result.text.c_str());
  }
}

// A send that did not end in time gives its memory back to the caller: whatever the receiver does
// later, it must not take what the caller has written since for the message.
Test(failure, what_a_sender_gave_up_is_never_received, .timeout = 120) {
  for (const Way& way : kWays)
    for (const bool begun : {false, true}) {
      auto& came = shared_number();
      auto& received = shared_number();
      const auto body = [&](Bootstrap& boot) {
        auto ep = open(boot, way.fabrics);
        if (ep->shm() != nullptr) ep->shm()->set_crowded(way.by_reading);
        if (boot.facts().rank == 0) {
          std::vector<char> data(kHuge, 'a');
          Request* const r = ep->isend(1, 1, data.data(), kHuge);
          RLX_EXPECT_OK(poll_until(*ep, [&] { return !begun || came; }));
          const auto status = ep->wait(r, Deadline::after_ms(20));
          RLX_EXPECT(!status && status.error().code == Code::kTimeout, "no timeout");
          ep->abandon(r, 100);
          r->release();
          std::fill(data.begin(), data.end(), 'b');
          RLX_EXPECT_OK(boot.fence(soon()));
          // Where they were not connected yet, it hears of it through our wire.
          RLX_EXPECT_OK(poll_until(*ep, [&] { return received != 0; }));
          return;
        }
        std::vector<char> into(kHuge, 'c');
        Request* r = nullptr;
        if (begun) {
          r = ep->irecv(0, 1, kWholeTag, into.data(), kHuge);
          RLX_EXPECT_OK(ep->until([&] { return until_some_came(*ep); }, soon()));
          came = 1;
        }
        RLX_EXPECT_OK(boot.fence(soon()));
        if (!begun) r = ep->irecv(0, 1, kWholeTag, into.data(), kHuge);
        expect_failure(finish(*ep, r), 0);
        received = 1;
      };
      const auto result = fork_world(2, body, {.timeout_ms = 20000});
      cr_assert(result.ok, "%s, %s: %s", way.what, begun ? "begun" : "not begun",
                result.text.c_str());
    }
}

Test(failure, only_receives_that_the_dead_could_serve_fail, .timeout = 120) {
  const auto body = [](Bootstrap& boot) {
    auto ep = open(boot);
    ep->set_group(7, {0, 2});
    ep->set_group(8, {0, 1, 2});
    if (boot.facts().rank == 1) die();
    char byte = 'a', in = 0, in8 = 0;
    Request* const apart = ep->irecv(kAnySource, make_tag(7, 0), kAnyUserTag, &in, 1);
    Request* const with = ep->irecv(kAnySource, make_tag(8, 0), kAnyUserTag, &in8, 1);
    expect_failure(finish(*ep, with), 1);
    RLX_EXPECT(apart->code == Code::kOk, "failed although rank 1 is not in its group");
    const int peer = 2 - boot.facts().rank;
    send(*ep, peer, make_tag(7, 3), &byte, 1);
    RLX_EXPECT_OK(finish(*ep, apart));
    RLX_EXPECT(in == 'a', "{}", in);
    send(*ep, peer, make_tag(7, 4), &byte, 1);
    recv(*ep, peer, make_tag(7, 4), &in, 1);
  };
  const auto result = fork_world(3, body, {.timeout_ms = 20000, .expect_dead = {1}});
  cr_assert(result.ok, "%s", result.text.c_str());
}

Test(failure, a_timeout_says_what_is_missing, .timeout = 120) {
  const auto body = [](Bootstrap& boot) {
    auto ep = open(boot);
    if (boot.facts().rank == 0) {
      char byte = 0;
      Request* const r = ep->irecv(1, make_tag(2, 5), kWholeTag, &byte, 1);
      const Status status = ep->wait(r, Deadline::after_ms(150));
      RLX_EXPECT(!status && status.error().code == Code::kTimeout, "no timeout");
      RLX_EXPECT(
          status.error().text == "receive from rank 1 (testhost), tag 5: nothing has arrived",
          "'{}'", status.error().text);
      const auto pending = ep->pending();
      RLX_EXPECT(pending.size() == 1 && pending[0].peer == 1 && pending[0].age_ms >= 0, "{}",
                 pending.size());
      RLX_EXPECT(ep->cancel(r), "not cancelled");
      r->release();
    }
    RLX_EXPECT_OK(boot.finalize(soon()));
  };
  const auto result = fork_world(2, body);
  cr_assert(result.ok, "%s", result.text.c_str());
}

Test(failure, a_flush_says_what_nobody_takes, .timeout = 120) {
  for (const char* fabrics : kFabrics) {
    const auto body = [&](Bootstrap& boot) {
      auto ep = open(boot, fabrics);
      std::vector<char> data(kHuge);
      if (boot.facts().rank == 0) {
        if (ep->shm() != nullptr) ep->shm()->set_crowded(false);
        Request* const a = ep->isend(1, make_tag(2, 5), data.data(), kHuge);
        Request* const b = ep->isend(1, make_tag(2, 6), data.data(), kHuge);
        const Status status = ep->flush(Deadline::after_ms(150));
        RLX_EXPECT(!status && status.error().code == Code::kTimeout, "no timeout");
        RLX_EXPECT(status.error().text ==
                       fmt::format("after 150 ms: send of {} bytes to rank 1 (testhost), tag 5: it "
                                   "has posted no receive for it; and 1 more",
                                   kHuge),
                   "'{}'", status.error().text);
        // One that is given up is not said to be gone, and keeps nobody from leaving.
        ep->abandon(a, 100);
        RLX_EXPECT(ep->failed(1)->text.starts_with("rank 1 (testhost) was given up: after 100 ms"),
                   "'{}'", ep->failed(1)->text);
        RLX_EXPECT_OK(ep->flush(soon()));
        a->release(), b->release();
      }
      RLX_EXPECT_OK(boot.finalize(soon()));
    };
    const auto result = fork_world(2, body, {.timeout_ms = 20000});
    cr_assert(result.ok, "%s: %s", fabrics, result.text.c_str());
  }
}
