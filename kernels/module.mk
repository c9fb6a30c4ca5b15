# Sources of kernels/, compiled once per instruction set. Exactness forbids fast-math and contraction.
noinst_LTLIBRARIES += libkernels.la
libkernels_la_SOURCES = \
  kernels/isa.h kernels/isa.cc kernels/targets.h kernels/format-inl.h kernels/ways.h kernels/ways-inl.h \
  kernels/copy.h kernels/copy.cc kernels/convert.h kernels/convert.cc \
  kernels/reduce.h kernels/reduce.cc kernels/float_env.h kernels/superaccumulator.h \
  kernels/exact-inl.h kernels/exact.h kernels/exact.cc kernels/exact_accumulator.cc
libkernels_la_CXXFLAGS = $(AM_CXXFLAGS) $(HWY_CFLAGS) -fno-fast-math -ffp-contract=off
EXTRA_DIST += kernels/README.md
