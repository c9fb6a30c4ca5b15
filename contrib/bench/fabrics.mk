# Costs of fabrics/, layer by layer: build/contrib/bench/fabric_costs.
EXTRA_PROGRAMS += contrib/bench/fabric_costs
contrib_bench_fabric_costs_SOURCES = contrib/bench/fabric_costs.cc contrib/bench/flag_latency.h contrib/bench/perf_core.h
contrib_bench_fabric_costs_LDADD = libtestsupport.la $(FABRICS_LIBS)
