# sched/: decisions without I/O. Contraction off: fused multiply-adds would make plans differ between machines.
noinst_LTLIBRARIES += libsched.la
libsched_la_CXXFLAGS = $(AM_CXXFLAGS) -ffp-contract=off
libsched_la_SOURCES = \
  sched/api.cc sched/types.h sched/types.cc sched/bound.h sched/bound.cc sched/budget.h sched/budget.cc \
  sched/edge_colour.h sched/edge_colour.cc sched/eplb.h sched/eplb.cc sched/exact.h sched/exact.cc \
  sched/first_placement.cc sched/forwarding.h sched/forwarding.cc sched/generate.h sched/generate.cc \
  sched/layer_paths.h sched/layer_paths.cc sched/layer_state.h sched/layer_state.cc \
  sched/level_sources.h sched/level_sources.cc sched/migration.h sched/migration.cc \
  sched/payback.h sched/payback.cc sched/plan_cache.h sched/plan_cache.cc sched/planner.h \
  sched/planner.cc sched/portable_math.h sched/relabel.h sched/relabel.cc sched/repair.cc sched/rlx_policy.h \
  sched/rlx_policy.cc sched/search.h sched/search.cc sched/split.h sched/split.cc sched/stats.h \
  sched/stats.cc sched/traffic.h sched/traffic.cc
EXTRA_DIST += sched/README.md
