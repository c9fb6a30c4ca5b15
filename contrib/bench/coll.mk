# What the engine itself costs: build/contrib/bench/engine.
EXTRA_PROGRAMS += contrib/bench/engine
BENCHMARKS += contrib/bench/engine$(EXEEXT)
contrib_bench_engine_SOURCES = contrib/bench/engine.cc
contrib_bench_engine_LDADD = $(COLL_LIBS)
