# Tests of launcher/. test_options, test_parts, test_map, test_hosts, test_place and test_gpus start nothing; the others run rlxrun.
check_LTLIBRARIES += liblaunchtest.la
liblaunchtest_la_SOURCES = test/launcher/launch.h test/launcher/launch.cc \
  test/launcher/fake_hosts.h test/launcher/fake_hosts.cc test/launcher/machines.h test/launcher/machines.cc
LAUNCHER_TEST_LIBS = liblaunchtest.la $(LAUNCHER_LIBS) $(TEST_LIBS)

check_PROGRAMS += test/launcher/test_options test/launcher/test_parts test/launcher/test_map test/launcher/test_hosts \
  test/launcher/test_place test/launcher/test_gpus \
  test/launcher/test_codes \
  test/launcher/test_look test/launcher/test_streams test/launcher/test_endings test/launcher/test_rough
test_launcher_test_options_SOURCES = test/launcher/test_options.cc
test_launcher_test_options_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_parts_SOURCES = test/launcher/test_parts.cc
test_launcher_test_parts_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_map_SOURCES = test/launcher/test_map.cc
test_launcher_test_map_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_hosts_SOURCES = test/launcher/test_hosts.cc
test_launcher_test_hosts_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_gpus_SOURCES = test/launcher/test_gpus.cc
test_launcher_test_gpus_LDADD = $(LAUNCHER_TEST_LIBS)
# It stands for the library that is looked up in it.
test_launcher_test_gpus_LDFLAGS = -export-dynamic
test_launcher_test_place_SOURCES = test/launcher/test_place.cc
test_launcher_test_place_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_codes_SOURCES = test/launcher/test_codes.cc
test_launcher_test_codes_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_streams_SOURCES = test/launcher/test_streams.cc
test_launcher_test_streams_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_endings_SOURCES = test/launcher/test_endings.cc
test_launcher_test_endings_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_rough_SOURCES = test/launcher/test_rough.cc
test_launcher_test_rough_LDADD = $(LAUNCHER_TEST_LIBS)
check_PROGRAMS += test/launcher/test_tree test/launcher/test_tree_failures
test_launcher_test_tree_SOURCES = test/launcher/test_tree.cc
test_launcher_test_tree_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_tree_failures_SOURCES = test/launcher/test_tree_failures.cc
test_launcher_test_tree_failures_LDADD = $(LAUNCHER_TEST_LIBS)
test_launcher_test_look_SOURCES = test/launcher/test_look.cc
test_launcher_test_look_LDADD = $(LAUNCHER_TEST_LIBS)
EXTRA_test_launcher_test_look_DEPENDENCIES = test/pmix_glue/rank
check_PROGRAMS += test/launcher/test_hold
test_launcher_test_hold_SOURCES = test/launcher/test_hold.cc
test_launcher_test_hold_LDADD = $(LAUNCHER_TEST_LIBS)
check_PROGRAMS += test/launcher/test_frames
test_launcher_test_frames_SOURCES = test/launcher/test_frames.cc
test_launcher_test_frames_LDADD = $(LAUNCHER_TEST_LIBS)
check_PROGRAMS += test/launcher/test_pty
test_launcher_test_pty_SOURCES = test/launcher/test_pty.cc
test_launcher_test_pty_LDADD = $(LAUNCHER_TEST_LIBS)
check_PROGRAMS += test/launcher/test_dial
test_launcher_test_dial_SOURCES = test/launcher/test_dial.cc
test_launcher_test_dial_LDADD = $(LAUNCHER_TEST_LIBS)
EXTRA_DIST += test/launcher/fuzz_app_file.cc test/launcher/fuzz_frame.cc test/launcher/fuzz_hosts.cc
