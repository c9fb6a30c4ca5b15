// SPDX-License-Identifier: MIT OR Apache-2.0
// A job in which one rank fails on purpose: fail_check PHASE HOW. Run by test_launch.cc, which
// checks what the others and the launcher say. Survivors print the library's words and exit with 10
// + the error's code.
//
//   PHASE before_init | after_init | in_collective | in_recv | in_probe | in_probe_any | in_iprobe
//   | in_finalize | after_finalize HOW   kill (SIGKILL) | exit0 | exit3 | stop (SIGSTOP) | mismatch
//   (another collective) | abort (rlx_abort 7)
#include <rlx/rlx.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

std::string g_how;
int g_rank = 0, g_victim = 0;

void fail_now() {
  if (g_how == "kill") raise(SIGKILL);
  if (g_how == "exit0") _exit(0);
  if (g_how == "exit3") _exit(3);
  if (g_how == "stop") raise(SIGSTOP);
  if (g_how == "abort") rlx_abort(7, "the victim had enough");
}

// What every rank does in `phase`; the victim fails in the middle of it.
void must(int error) {
  if (error == RLX_SUCCESS) return;
  std::fprintf(stderr, "rank %d saw %s: %s\n", g_rank, rlx_error_name(error), rlx_error_text());
  std::exit(10 + error);
}

void in_collective() {
  std::vector<float> in(100000, 1.0f), out(in.size());
  for (int i = 0; i < 50; ++i) {
    if (i == 20 && g_rank == g_victim) {
      if (g_how == "mismatch") must(rlx_broadcast(out.data(), 5, RLX_F32, 0, rlx_world()));
      fail_now();
    }
    must(rlx_all_reduce(in.data(), out.data(), i % 2 ? in.size() : 3, RLX_F32, RLX_SUM, RLX_FAST,
                        rlx_world()));
  }
}

void in_recv() {
  if (g_rank == g_victim) fail_now();
  float x = 0;
  must(rlx_recv(&x, 1, RLX_F32, g_victim, 0, rlx_world(), nullptr));
}

void in_probe(const std::string& phase) {
  if (g_rank == g_victim) {
    usleep(200000);  // others wait already
    fail_now();
  }
  const int source = phase == "in_probe_any" ? RLX_ANY_SOURCE : g_victim;
  int flag = 0;
  if (phase != "in_iprobe") must(rlx_probe(source, 0, rlx_world(), nullptr));
  while (flag == 0) must(rlx_iprobe(source, 0, rlx_world(), &flag, nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string phase = argv[1];
  g_how = argv[2];
  const char* rank = std::getenv("RLX_RANK");
  if (phase == "before_init" && rank && std::string(rank) == "1") fail_now();
  must(rlx_init());
  g_rank = rlx_comm_rank(rlx_world());
  g_victim = rlx_comm_size(rlx_world()) > 1 ? 1 : 0;
  if (phase == "after_init" && g_rank == g_victim) fail_now();
  if (phase == "in_collective") in_collective();
  if (phase == "in_recv") in_recv();
  if (phase.find("probe") != std::string::npos) in_probe(phase);
  if (phase == "in_finalize" && g_rank == g_victim) fail_now();
  must(rlx_finalize());
  if (phase == "after_finalize" && g_rank == g_victim) fail_now();
  return 0;
}
