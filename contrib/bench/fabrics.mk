# Costs of fabrics/, layer by layer: build/contrib/bench/fabric_costs.
EXTRA_PROGRAMS += contrib/bench/fabric_costs
BENCHMARKS += contrib/bench/fabric_costs$(EXEEXT)
contrib_bench_fabric_costs_SOURCES = contrib/bench/fabric_costs.cc contrib/bench/flag_latency.h contrib/bench/perf_core.h
contrib_bench_fabric_costs_LDADD = libtestsupport.la $(FABRICS_LIBS)
# What a large job costs a daemon before its ranks start: build/contrib/bench/job_scale.
EXTRA_PROGRAMS += contrib/bench/job_scale
BENCHMARKS += contrib/bench/job_scale$(EXEEXT)
contrib_bench_job_scale_SOURCES = contrib/bench/job_scale.cc
contrib_bench_job_scale_LDADD = libtestsupport.la $(LAUNCHER_LIBS)
