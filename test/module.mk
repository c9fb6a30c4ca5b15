# Tests: Criterion programs test/FOLDER/test_UNIT.cc, one automake program each, run through the TAP driver.
# To add one: append test_FOLDER_UNIT to check_PROGRAMS and set its _SOURCES and _LDADD as below.
include test/pmix_glue/module.mk
include test/sched/module.mk
check_PROGRAMS += test/base/test_base
test_base_test_base_SOURCES = test/base/test_base.cc
test_base_test_base_LDADD = $(TEST_LIBS)

include test/fabrics/wires.mk

check_LTLIBRARIES += libtestsupport.la
libtestsupport_la_SOURCES = test/support/fork_world.h test/support/fork_world.cc \
  test/support/command.h test/support/command.cc

check_PROGRAMS += test/fabrics/test_fork_world
test_fabrics_test_fork_world_SOURCES = test/fabrics/test_fork_world.cc
test_fabrics_test_fork_world_LDADD = $(TEST_LIBS)
KERNELS_TEST_LIBS = $(TEST_LIBS) $(KERNELS_LIBS)
check_PROGRAMS += test/kernels/test_exact test/kernels/test_reduce test/kernels/test_convert
test_kernels_test_exact_SOURCES = test/kernels/test_exact.cc test/kernels/oracle.h
test_kernels_test_exact_LDADD = $(KERNELS_TEST_LIBS)
test_kernels_test_reduce_SOURCES = test/kernels/test_reduce.cc test/kernels/oracle.h
test_kernels_test_reduce_LDADD = $(KERNELS_TEST_LIBS)
test_kernels_test_convert_SOURCES = test/kernels/test_convert.cc test/kernels/oracle.h
test_kernels_test_convert_LDADD = $(KERNELS_TEST_LIBS)
check_PROGRAMS += test/coll/test_plans
test_coll_test_plans_SOURCES = test/coll/test_plans.cc test/coll/oracle.h test/coll/oracle.cc
test_coll_test_plans_LDADD = $(TEST_LIBS) $(COLL_LIBS)
check_PROGRAMS += test/coll/test_collectives
test_coll_test_collectives_SOURCES = test/coll/test_collectives.cc test/coll/oracle.h test/coll/oracle.cc \
  test/coll/station.h test/coll/station.cc
test_coll_test_collectives_LDADD = $(TEST_LIBS) $(COLL_LIBS)
check_PROGRAMS += test/coll/test_trouble
test_coll_test_trouble_SOURCES = test/coll/test_trouble.cc test/coll/station.h test/coll/station.cc
test_coll_test_trouble_LDADD = $(TEST_LIBS) $(COLL_LIBS)
# The library exports the C interface only, so the test has a world of its own.
check_PROGRAMS += test/coll/test_world
test_coll_test_world_SOURCES = test/coll/test_world.cc coll/world.cc coll/communicator.cc
test_coll_test_world_CXXFLAGS = $(AM_CXXFLAGS)
test_coll_test_world_LDADD = $(TEST_LIBS) $(COLL_LIBS) libpmix_client.la libpmix_common.la $(PMIX_LIBS)

# Jobs that tests start: built by make check, not tests themselves.
started-by-tests: $(STARTED_BY_TESTS)
.PHONY: started-by-tests
EXTRA_PROGRAMS += test/coll/api_check test/coll/fail_check
STARTED_BY_TESTS += test/coll/api_check$(EXEEXT) test/coll/fail_check$(EXEEXT)
check_DATA += $(STARTED_BY_TESTS)
CLEANFILES += $(STARTED_BY_TESTS)
test_coll_api_check_SOURCES = test/coll/api_check.h test/coll/api_check.cc test/coll/api_check_collectives.cc
test_coll_api_check_LDADD = librlx.la
test_coll_fail_check_SOURCES = test/coll/fail_check.cc
test_coll_fail_check_LDADD = librlx.la

EXTRA_PROGRAMS += test/coll/large_check
CLEANFILES += test/coll/large_check$(EXEEXT)
test_coll_large_check_SOURCES = test/coll/large_check.cc
test_coll_large_check_LDADD = librlx.la
check-large: rlxrun$(EXEEXT) test/coll/large_check$(EXEEXT)
	./rlxrun -np 2 test/coll/large_check
	RLX_FABRICS=self,tcp ./rlxrun -np 2 test/coll/large_check
.PHONY: check-large

check_PROGRAMS += test/coll/test_launch
test_coll_test_launch_SOURCES = test/coll/test_launch.cc
test_coll_test_launch_LDADD = $(TEST_LIBS)
check_PROGRAMS += test/coll/test_select
test_coll_test_select_SOURCES = test/coll/test_select.cc
test_coll_test_select_LDADD = $(COLL_LIBS) $(TEST_LIBS)
