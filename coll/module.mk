EXTRA_DIST += coll/README.md
# Sources of coll/: plans, the engine, algorithms and selection (libcoll.la).
noinst_LTLIBRARIES += libcoll.la
libcoll_la_SOURCES = \
  coll/shape.h coll/shape.cc coll/plan.h coll/plan.cc coll/area.h coll/shown.h \
  coll/links.h coll/links.cc coll/engine.h coll/engine.cc coll/task.h coll/task.cc coll/task_chain.cc \
  coll/trouble.h coll/trouble.cc coll/collectives.h coll/collectives.cc \
  coll/simulate.h coll/simulate.cc coll/check_plan.cc \
  coll/algorithm.h coll/algorithms.h coll/registry.cc coll/select.h coll/select.cc coll/rules.cc \
  coll/pattern.h coll/tree.h coll/tree.cc coll/blocks.h coll/leaves.h coll/leaves.cc coll/shared.h coll/shared.cc \
  coll/barrier_dissemination.cc coll/barrier_lines.cc \
  coll/broadcast_binomial.cc coll/broadcast_chain.cc coll/broadcast_shared.cc \
  coll/reduce_binomial.cc coll/reduce_direct.cc coll/reduce_shared.cc \
  coll/all_reduce_one_shot.cc coll/all_reduce_recursive_doubling.cc coll/all_reduce_direct.cc \
  coll/all_reduce_ring.cc coll/all_reduce_lines.cc coll/all_reduce_slots.cc \
  coll/all_reduce_staged.cc coll/all_reduce_shared.cc \
  coll/all_gather_direct.cc coll/all_gather_shared.cc coll/reduce_scatter_direct.cc \
  coll/all_to_all_pairwise.cc coll/all_to_all_shared.cc coll/gather_linear.cc coll/scatter_linear.cc
libcoll_la_CXXFLAGS = $(AM_CXXFLAGS) -O2

# librlx: the world and the C interface over everything below.
lib_LTLIBRARIES += librlx.la
librlx_la_SOURCES = \
  coll/api.h coll/api.cc coll/api_message.cc coll/api_collective.cc coll/api_exact.cc \
  coll/communicator.h coll/communicator.cc coll/world.h coll/world.cc
librlx_la_LIBADD = $(COLL_LIBS) libsched.la libpmix_client.la libpmix_common.la $(PMIX_LIBS)
librlx_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -Wl,--version-script=$(srcdir)/coll/rlx.map \
  $(RLX_NO_UNDEFINED)
EXTRA_librlx_la_DEPENDENCIES = coll/rlx.map
EXTRA_DIST += coll/rlx.map
