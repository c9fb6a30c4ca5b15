noinst_LTLIBRARIES += libbase.la
libbase_la_SOURCES = \
  base/result.h base/result.cc base/dtype.h base/dtype.cc base/clock.h \
  base/knobs.def base/knobs.h base/knobs.cc base/log.h base/log.cc base/bootstrap.h \
  base/bytes.h base/fd.h base/file.h base/file.cc base/cpu_set.h base/cpu_set.cc base/cgroup.h base/cgroup.cc \
  base/network.h base/network.cc base/words.h base/words.cc base/faster_way.h

# The machine's topology; apart from libbase because only the launcher and rlx-info need hwloc.
noinst_LTLIBRARIES += libtopology.la
libtopology_la_SOURCES = base/topology.h base/topology.cc
