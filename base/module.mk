noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
  base/result.h base/result.cc base/dtype.h base/dtype.cc base/clock.h \
  base/knobs.def base/knobs.h base/knobs.cc base/log.h base/log.cc base/bootstrap.h \
  base/bytes.h
libbase_la_LIBADD = $(FMT_LIBS)
