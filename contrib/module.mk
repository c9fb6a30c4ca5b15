# Programs, examples, benchmarks and scripts of contrib/.
dist_check_SCRIPTS += contrib/check-layers.sh
EXTRA_DIST += contrib/layers.txt contrib/packages.txt

# rlx-perf and, in the same loops, its peers (compiled by contrib/bench/compare, not by make).
rlx_perf_sources = contrib/tools/rlx_perf.cc contrib/bench/perf_core.h contrib/bench/perf_elements.h \
  contrib/bench/flag_latency.h
EXTRA_DIST += contrib/bench/compare contrib/bench/mpi_perf.cc $(rlx_perf_sources)
