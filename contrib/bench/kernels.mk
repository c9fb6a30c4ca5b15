# Kernels on one core, exact beside default: build/contrib/bench/kernels (needs libbenchmark-dev).
EXTRA_PROGRAMS += contrib/bench/kernels
BENCHMARKS += contrib/bench/kernels$(EXEEXT)
contrib_bench_kernels_SOURCES = contrib/bench/kernels.cc
contrib_bench_kernels_LDADD = $(KERNELS_LIBS) -lbenchmark -lpthread
