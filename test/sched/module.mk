# Tests of sched/: all share support.cc.
check_LTLIBRARIES += libschedtest.la
libschedtest_la_SOURCES = test/sched/support.h test/sched/support.cc
SCHED_TEST_LIBS = libschedtest.la $(TEST_LIBS) $(SCHED_LIBS)
check_PROGRAMS += test/sched/test_eplb test/sched/test_search test/sched/test_oracle \
  test/sched/test_split test/sched/test_migration test/sched/test_decide test/sched/test_real
test_sched_test_eplb_SOURCES = test/sched/test_eplb.cc
test_sched_test_eplb_LDADD = $(SCHED_TEST_LIBS)
test_sched_test_search_SOURCES = test/sched/test_search.cc
test_sched_test_search_LDADD = $(SCHED_TEST_LIBS)
test_sched_test_oracle_SOURCES = test/sched/test_oracle.cc
test_sched_test_oracle_LDADD = $(SCHED_TEST_LIBS)
test_sched_test_split_SOURCES = test/sched/test_split.cc
test_sched_test_split_LDADD = $(SCHED_TEST_LIBS)
test_sched_test_migration_SOURCES = test/sched/test_migration.cc
test_sched_test_migration_LDADD = $(SCHED_TEST_LIBS)
test_sched_test_decide_SOURCES = test/sched/test_decide.cc
test_sched_test_decide_LDADD = $(SCHED_TEST_LIBS)
test_sched_test_real_SOURCES = test/sched/test_real.cc
test_sched_test_real_LDADD = $(SCHED_TEST_LIBS)
check_PROGRAMS += test/sched/test_api test/sched/test_tool
test_sched_test_api_SOURCES = test/sched/test_api.cc
test_sched_test_api_LDADD = libsched.la libbase.la $(TEST_LIBS)
test_sched_test_tool_SOURCES = test/sched/test_tool.cc
test_sched_test_tool_LDADD = libtestsupport.la libbase.la $(TEST_LIBS)
EXTRA_test_sched_test_tool_DEPENDENCIES = rlx-eplb
EXTRA_DIST += test/sched/fuzz_eplb.cc
