/* SPDX-License-Identifier: MIT OR Apache-2.0
   Prints the microseconds this rank spends in init and in finalize. One source for MPI and, with -DRLX, for rlx. */
#include <stdio.h>
#include <time.h>
#ifdef RLX
#include <rlx/rlx.h>
#define INIT() rlx_init()
#define FINALIZE() rlx_finalize()
#else
#include <mpi.h>
#define INIT() MPI_Init(NULL, NULL)
#define FINALIZE() MPI_Finalize()
#endif

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

int main(void) {
  const double start = now_us();
  if (INIT() != 0) return 1;
  const double ready = now_us();
  if (FINALIZE() != 0) return 1;
  printf("%.0f %.0f\n", ready - start, now_us() - ready);
  return 0;
}
