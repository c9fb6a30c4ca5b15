/* SPDX-License-Identifier: MIT OR Apache-2.0
   A PMIx client: puts 64 bytes, meets all ranks in the first collecting fence, and prints the microseconds of
   CLOCK_MONOTONIC at which it came out. The same program runs under every launcher that speaks PMIx. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(void) {
  pmix_proc_t me, all;
  pmix_value_t value;
  pmix_info_t collect;
  struct timespec t;
  char bytes[64];
  bool yes = true;
  if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 1;
  memset(bytes, 'x', sizeof bytes);
  value.type = PMIX_BYTE_OBJECT;
  value.data.bo.bytes = bytes;
  value.data.bo.size = sizeof bytes;
  if (PMIx_Put(PMIX_GLOBAL, "bench.blob", &value) != PMIX_SUCCESS || PMIx_Commit() != PMIX_SUCCESS) return 2;
  PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  if (PMIx_Fence(&all, 1, &collect, 1) != PMIX_SUCCESS) return 3;
  clock_gettime(CLOCK_MONOTONIC, &t);
  printf("%.0f\n", t.tv_sec * 1e6 + t.tv_nsec / 1e3);
  return PMIx_Finalize(NULL, 0) == PMIX_SUCCESS ? 0 : 4;
}
