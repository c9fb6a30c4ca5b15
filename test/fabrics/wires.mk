# Wires, tried without an endpoint above them.
check_PROGRAMS += test/fabrics/test_wire_conformance
test_fabrics_test_wire_conformance_SOURCES = test/fabrics/test_wire_conformance.cc test/fabrics/wire_rank.h
test_fabrics_test_wire_conformance_LDADD = libfabricstcp.la libtestsupport.la libbase.la $(TEST_LIBS)
