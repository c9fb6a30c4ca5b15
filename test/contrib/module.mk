# Tests of contrib/'s programs and scripts.
if HAVE_DNNL
check_PROGRAMS += test/contrib/test_train
endif
test_contrib_test_train_SOURCES = test/contrib/test_train.cc $(train_state_sources)
test_contrib_test_train_LDADD = $(DNNL_LIBS) $(TEST_LIBS)
EXTRA_DIST += test/contrib/fuzz_checkpoint.cc

dist_check_SCRIPTS += test/contrib/commands.sh test/contrib/tools.sh test/contrib/installed.sh \
  test/contrib/train_jobs.sh
EXTRA_DIST += test/contrib/tap.sh test/contrib/face.cc
