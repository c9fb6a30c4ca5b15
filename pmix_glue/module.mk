# Sources of pmix_glue/: what both sides share, the client (part of librlx) and the server (part of
# rlxrun).
noinst_LTLIBRARIES += libpmix_common.la libpmix_client.la libpmix_server.la
libpmix_common_la_SOURCES = \
  pmix_glue/proc_id.h pmix_glue/info.h pmix_glue/info.cc pmix_glue/status.h pmix_glue/status.cc
libpmix_client_la_SOURCES = \
  pmix_glue/client.h pmix_glue/client.cc pmix_glue/mail.h pmix_glue/mail.cc pmix_glue/local.h pmix_glue/local.cc
libpmix_server_la_SOURCES = \
  pmix_glue/job.h pmix_glue/server.h pmix_glue/server_impl.h pmix_glue/server.cc pmix_glue/jobs.cc \
  pmix_glue/environment.cc pmix_glue/upcalls.cc pmix_glue/fence.cc pmix_glue/names.cc \
  pmix_glue/control.cc pmix_glue/query.cc pmix_glue/store.h pmix_glue/store.cc pmix_glue/exchange.h \
  pmix_glue/exchange.cc pmix_glue/carrier.h pmix_glue/carrier.cc pmix_glue/node_set.h pmix_glue/node_set.cc \
  pmix_glue/frame.h pmix_glue/frame.cc pmix_glue/meetings.h pmix_glue/meetings.cc \
  pmix_glue/tree_exchange.h pmix_glue/tree_exchange.cc pmix_glue/tree_root.h \
  pmix_glue/tree_root.cc pmix_glue/modex.cc pmix_glue/events.cc pmix_glue/shift.h pmix_glue/shift.cc pmix_glue/pmi1.h pmix_glue/pmi1.cc \
  pmix_glue/pmi1_link.cc pmix_glue/elf.cc pmix_glue/single_rounds.h pmix_glue/single_rounds.cc
EXTRA_DIST += pmix_glue/README.md
