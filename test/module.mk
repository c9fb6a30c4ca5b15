# Tests: Criterion programs test/FOLDER/test_UNIT.cc, one automake program each, run through the TAP driver.
# To add one: append test_FOLDER_UNIT to check_PROGRAMS and set its _SOURCES and _LDADD as below.
check_PROGRAMS += test/base/test_base
test_base_test_base_SOURCES = test/base/test_base.cc
test_base_test_base_LDADD = libbase.la $(TEST_LIBS)
