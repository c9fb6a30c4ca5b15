# What the engine itself costs: build/contrib/bench/engine.
check_PROGRAMS += contrib/bench/engine
contrib_bench_engine_SOURCES = contrib/bench/engine.cc
contrib_bench_engine_LDADD = $(COLL_LIBS)
