FABRICS_TEST_LIBS = $(TEST_LIBS) $(FABRICS_LIBS)

# Wires, tried without an endpoint above them.
check_PROGRAMS += test/fabrics/test_wire_conformance
test_fabrics_test_wire_conformance_SOURCES = test/fabrics/test_wire_conformance.cc test/fabrics/wire_rank.h
test_fabrics_test_wire_conformance_LDADD = $(FABRICS_TEST_LIBS)

check_PROGRAMS += test/fabrics/test_shm_ring
test_fabrics_test_shm_ring_SOURCES = test/fabrics/test_shm_ring.cc
test_fabrics_test_shm_ring_LDADD = $(FABRICS_TEST_LIBS)

check_PROGRAMS += test/fabrics/test_tcp
test_fabrics_test_tcp_SOURCES = test/fabrics/test_tcp.cc test/fabrics/untrusted_tcp.h
test_fabrics_test_tcp_LDADD = $(FABRICS_TEST_LIBS)
check_PROGRAMS += test/fabrics/test_tcp_wire
test_fabrics_test_tcp_wire_SOURCES = test/fabrics/test_tcp_wire.cc test/fabrics/untrusted_tcp.h test/fabrics/wire_rank.h
test_fabrics_test_tcp_wire_LDADD = $(FABRICS_TEST_LIBS)
EXTRA_DIST += test/fabrics/fuzz_tcp.cc

check_PROGRAMS += test/fabrics/test_tcp_hosts
test_fabrics_test_tcp_hosts_SOURCES = test/fabrics/test_tcp_hosts.cc test/fabrics/wire_rank.h
test_fabrics_test_tcp_hosts_LDADD = $(FABRICS_TEST_LIBS)

# The endpoint above them.
check_LTLIBRARIES += libendpointbodies.la
libendpointbodies_la_SOURCES = test/fabrics/endpoint_bodies.h test/fabrics/endpoint_bodies.cc test/fabrics/endpoint_world.h
ENDPOINT_TEST_LIBS = libendpointbodies.la $(FABRICS_TEST_LIBS)
check_PROGRAMS += test/fabrics/test_endpoint test/fabrics/test_endpoint_failure test/fabrics/test_wait test/fabrics/test_threads
test_fabrics_test_endpoint_SOURCES = test/fabrics/test_endpoint.cc
test_fabrics_test_endpoint_LDADD = $(ENDPOINT_TEST_LIBS)
test_fabrics_test_endpoint_failure_SOURCES = test/fabrics/test_endpoint_failure.cc
test_fabrics_test_endpoint_failure_LDADD = $(ENDPOINT_TEST_LIBS)
test_fabrics_test_wait_SOURCES = test/fabrics/test_wait.cc
test_fabrics_test_wait_LDADD = $(ENDPOINT_TEST_LIBS)
test_fabrics_test_threads_SOURCES = test/fabrics/test_threads.cc
test_fabrics_test_threads_LDADD = $(ENDPOINT_TEST_LIBS)
check_PROGRAMS += test/fabrics/test_endpoint_hostile
test_fabrics_test_endpoint_hostile_SOURCES = test/fabrics/test_endpoint_hostile.cc
test_fabrics_test_endpoint_hostile_LDADD = $(FABRICS_TEST_LIBS)
