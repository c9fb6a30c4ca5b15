// SPDX-License-Identifier: MIT OR Apache-2.0
// Modes of a rank that meet, and in which ranks fail, and the choice of the mode.
#include "test/pmix_glue/rank.h"

#include <signal.h>

#include <atomic>

#include "pmix_glue/local.h"

namespace rlx::pmix {
namespace {

void plain(Bootstrap& b, char**) {
  const auto& f = b.facts();
  std::string locals;
  for (const int r : f.local_ranks) locals += fmt::format("{},", r);
  fmt::print("rank {} of {} source {} locals {}\n", f.rank, f.size, f.source, locals);
  meet(b);
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

// Blobs that travel in several pieces.
void meet_with_much(Bootstrap& b, char**) {
  const auto blob = [](int rank) {
    std::string bytes;
    for (uint32_t i = 0; bytes.size() < 200000; ++i) bytes += std::to_string(i * 7 + rank);
    return bytes;
  };
  check(b.put(blob(b.facts().rank)), "put");
  check(b.fence(Deadline::after_ms(kLongMs)), "fence");
  for (int r = 0; r < b.facts().size; ++r) {
    const auto got = b.get(r);
    check(got && *got == blob(r), fmt::format("get {}", r));
  }
  check(b.finalize(Deadline::after_ms(kLongMs)), "finalize");
}

[[noreturn]] void die(const std::string& how) {
  if (how == "kill") ::kill(::getpid(), SIGKILL);
  if (how == "exit3") ::_exit(3);
  ::_exit(0);
}

// The rank that dies is in the fence, rank 0 too; the others come when they know of it.
[[noreturn]] void die_in_fence(Bootstrap& b, bool dies, const std::string& how) {
  static std::atomic<bool> heard{false};
  if (dies) {
    ::signal(
        SIGALRM,
        how == "kill" ? [](int) { ::kill(::getpid(), SIGKILL); } : [](int) { ::_exit(3); });
    ::alarm(1);
  } else if (b.facts().rank != 0) {
    b.watch([](int, const std::string&) { heard = true; });
    while (!heard) ::usleep(1000);
  }
  const Status fenced = b.fence(Deadline::after_ms(kLongMs));
  check(!fenced, "an error of the fence");
  say_and_wait(fenced.error());
}

// Rank 1 ends as `how` says in `phase`; the others print what they learn.
void death(const std::string& phase, const std::string& how) {
  const bool dies = std::string(std::getenv("PMIX_RANK")) == "1";
  if (dies && phase == "before_init") die(how);
  auto b = open_bootstrap();
  check(b.has_value(), "init");
  if (dies && phase == "before_fence") die(how);
  check((*b)->put(blob_of((*b)->facts().rank)), "put");
  if (phase == "in_fence") die_in_fence(**b, dies, how);
  if (const Status fenced = (*b)->fence(Deadline::after_ms(kLongMs)); !fenced)
    say_and_wait(fenced.error());
  if (dies && phase == "after_fence") die(how);
  const Status done = (*b)->finalize(Deadline::after_ms(kLongMs));
  if (!done) say_and_wait(done.error());
}

// Two of three ranks enter a fence that cannot end; all say so and wait to be killed.
void half_in(Bootstrap& b, char**) {
  check(b.put("x"), "put");
  fmt::print("in\n");
  std::fflush(stdout);
  if (b.facts().rank % 3 != 0) (void)b.fence(Deadline::never());
  ::pause();
}

void late(Bootstrap& b, char**) {
  if (b.facts().rank == 1) ::pause();
  check(b.put("x"), "put");
  const Status fenced = b.fence(Deadline::after_ms(500));
  check(!fenced && fenced.error().code == Code::kTimeout, "a deadline");
  fmt::print("{}\n", fenced.error().text);
  std::fflush(stdout);
  ::pause();
}

// Odd ranks stay away, even ones learn in the fence that they are gone.
void survive(Bootstrap& b, char**) {
  check(b.put("x"), "put");
  fmt::print("in\n");
  std::fflush(stdout);
  if (b.facts().rank % 2 != 0) ::pause();
  const Status fenced = b.fence(Deadline::after_ms(kLongMs));
  check(!fenced, "an error");
  say_and_wait(fenced.error());
}

// A wire finds rank 1 gone, which no server can see: where the launcher does not end the job, the
// library does.
void widowed(Bootstrap& b, char**) {
  meet(b);
  if (b.facts().rank == 1) ::pause();
  b.peer_failed(1, "no sign of life");
  const Status done = b.finalize(Deadline::after_ms(kLongMs));
  fmt::print("finalize: {}\n", done ? "good" : done.error().text);
  std::fflush(stdout);
  ::pause();
}

void abort_all(Bootstrap& b, char**) {
  meet(b);
  if (b.facts().rank == 1) b.abort(7, "for a test");
  ::pause();
}

void hear_of_loss(Bootstrap& b, char**) {
  ::alarm(30);  // nobody is left to end us
  b.watch([](int rank, const std::string& cause) {
    fmt::print("heard {} {}\n", rank, cause);
    std::fflush(stdout);
    ::_exit(0);
  });
  meet(b);
  fmt::print("ready\n");
  std::fflush(stdout);
  ::pause();
}

const std::vector<Mode> kMeetingModes = {
    {"plain", plain},     {"much", meet_with_much}, {"half_in", half_in}, {"late", late},
    {"survive", survive}, {"widowed", widowed},     {"abort", abort_all}, {"lost", hear_of_loss},
};

}  // namespace
}  // namespace rlx::pmix

int main(int argc, char** argv) {
  using namespace rlx;
  using namespace rlx::pmix;
  const std::string name = argc > 1 ? argv[1] : "plain";
  if (name == "death") {
    death(argv[2], argv[3]);
    return 0;
  }
  for (const auto& modes : {kMeetingModes, kServiceModes, kJobModes}) {
    for (const Mode& mode : modes) {
      if (mode.name != name) continue;
      auto opened = open_bootstrap();
      check(opened.has_value(), opened ? "" : opened.error().text);
      mode.run(**opened, argv + 2);
      return 0;
    }
  }
  check(false, "no mode is called " + name);
}
