# Tests of pmix_glue/.
check_LTLIBRARIES += libhosted.la
libhosted_la_SOURCES = test/pmix_glue/hosted.h test/pmix_glue/hosted.cc test/pmix_glue/mini_node.h \
  test/pmix_glue/mini_node.cc test/pmix_glue/mini_channel.h

check_PROGRAMS += test/pmix_glue/test_parts test/pmix_glue/test_pmi1 test/pmix_glue/test_server \
  test/pmix_glue/test_tree test/pmix_glue/test_nodes
test_pmix_glue_test_tree_SOURCES = test/pmix_glue/test_tree.cc test/pmix_glue/sim_tree.h
test_pmix_glue_test_tree_LDADD = $(TEST_LIBS) $(PMIX_SERVER_LIBS)
test_pmix_glue_test_parts_SOURCES = test/pmix_glue/test_parts.cc
test_pmix_glue_test_parts_LDADD = libhosted.la $(TEST_LIBS) libpmix_client.la $(PMIX_SERVER_LIBS)
test_pmix_glue_test_pmi1_SOURCES = test/pmix_glue/test_pmi1.cc
test_pmix_glue_test_pmi1_LDADD = $(TEST_LIBS) $(PMIX_SERVER_LIBS)
test_pmix_glue_test_server_SOURCES = test/pmix_glue/test_server.cc
test_pmix_glue_test_server_LDADD = libhosted.la $(TEST_LIBS) $(PMIX_SERVER_LIBS)
test_pmix_glue_test_nodes_SOURCES = test/pmix_glue/test_nodes.cc test/pmix_glue/foreign.h
test_pmix_glue_test_nodes_LDADD = libhosted.la $(TEST_LIBS) $(PMIX_SERVER_LIBS)

check_PROGRAMS += test/pmix_glue/test_hosts
test_pmix_glue_test_hosts_SOURCES = test/pmix_glue/test_hosts.cc test/pmix_glue/foreign.h
test_pmix_glue_test_hosts_LDADD = liblaunchtest.la $(TEST_LIBS)
EXTRA_test_pmix_glue_test_hosts_DEPENDENCIES = test/pmix_glue/rank

# Needs rlxrun, and Open MPI's and MPICH's compilers, without which it skips.
check_PROGRAMS += test/pmix_glue/test_foreign_mpi
test_pmix_glue_test_foreign_mpi_SOURCES = test/pmix_glue/test_foreign_mpi.cc test/pmix_glue/foreign.h
test_pmix_glue_test_foreign_mpi_LDADD = $(TEST_LIBS)
EXTRA_DIST += test/pmix_glue/foreign.c test/pmix_glue/fuzz_pmi1.cc test/pmix_glue/fuzz_tree.cc

# A rank for the tests, not a test.
EXTRA_PROGRAMS += test/pmix_glue/rank
STARTED_BY_TESTS += test/pmix_glue/rank$(EXEEXT)
test_pmix_glue_rank_SOURCES = test/pmix_glue/rank.cc test/pmix_glue/rank.h test/pmix_glue/rank_jobs.cc \
	test/pmix_glue/rank_services.cc
test_pmix_glue_rank_LDADD = $(PMIX_CLIENT_LIBS)
EXTRA_test_pmix_glue_test_server_DEPENDENCIES = test/pmix_glue/rank
EXTRA_test_pmix_glue_test_nodes_DEPENDENCIES = test/pmix_glue/rank
