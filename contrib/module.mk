# Programs, examples, benchmarks and scripts of contrib/.
dist_check_SCRIPTS += contrib/check-layers.sh
EXTRA_DIST += contrib/layers.txt contrib/packages.txt

# rlx-perf and, in the same loops, its peers (compiled by contrib/bench/compare, not by make).
rlx_perf_sources = contrib/tools/rlx_perf.cc contrib/bench/perf_core.h contrib/bench/perf_elements.h \
  contrib/bench/perf_options.h contrib/bench/perf_values.h contrib/bench/flag_latency.h
bin_PROGRAMS += rlx-perf
rlx_perf_SOURCES = $(rlx_perf_sources)
rlx_perf_LDADD = librlx.la libbase.la $(FMT_LIBS)
EXTRA_DIST += contrib/bench/compare contrib/bench/eplb contrib/bench/launch contrib/bench/launch-hosts contrib/bench/init_time.c contrib/bench/fence_time.c contrib/bench/mpi_perf.cc

# train, an example of a whole program (contrib/examples/Makefile builds it outside this tree).
train_sources = contrib/examples/train/main.cc contrib/examples/train/trainer.cc \
  contrib/examples/train/trainer.h contrib/examples/train/text.cc contrib/examples/train/text.h \
  contrib/examples/train/options.cc contrib/examples/train/options.h contrib/examples/train/failure.cc \
  contrib/examples/train/failure.h contrib/examples/train/random.h $(train_state_sources)
train_state_sources = contrib/examples/train/checkpoint.cc contrib/examples/train/checkpoint.h \
  contrib/examples/train/model.cc contrib/examples/train/model.h contrib/examples/train/state.cc \
  contrib/examples/train/state.h
if HAVE_DNNL
noinst_PROGRAMS += train
endif
train_SOURCES = $(train_sources)
train_LDADD = librlx.la $(DNNL_LIBS)

bin_PROGRAMS += rlx-info
rlx_info_SOURCES = contrib/tools/rlx_info.cc
rlx_info_LDADD = $(COLL_LIBS) $(TOPOLOGY_LIBS)

# Manual pages and completion, written by the programs from their own tables.
nodist_man1_MANS = rlxrun.1 rlx-eplb.1
nodist_man7_MANS = rlx.7
completiondir = $(datadir)/bash-completion/completions
nodist_completion_DATA = contrib/rlxrun
CLEANFILES += rlxrun.1 rlx-eplb.1 rlx.7 contrib/rlxrun
rlxrun.1: rlxrun$(EXEEXT)
	$(AM_V_GEN)./rlxrun --man >$@.tmp && mv $@.tmp $@
rlx-eplb.1: rlx-eplb$(EXEEXT)
	$(AM_V_GEN)./rlx-eplb --man >$@.tmp && mv $@.tmp $@
contrib/rlxrun: rlxrun$(EXEEXT)
	$(AM_V_GEN)mkdir -p contrib && ./rlxrun --completion >$@.tmp && mv $@.tmp $@
rlx.7: rlx-info$(EXEEXT)
	$(AM_V_GEN)./rlx-info man >$@.tmp && mv $@.tmp $@

bin_PROGRAMS += rlx-eplb
rlx_eplb_SOURCES = contrib/tools/rlx_eplb.cc contrib/tools/eplb_options.h contrib/tools/eplb_options.cc \
  contrib/tools/eplb_loads.cc contrib/tools/eplb_json.h contrib/tools/eplb_json.cc \
  contrib/tools/eplb_files.h contrib/tools/eplb_files.cc contrib/tools/eplb_placement.cc \
  contrib/tools/eplb_report.h contrib/tools/eplb_report.cc contrib/tools/eplb_page.cc
rlx_eplb_LDADD = libsched.la libbase.la $(FMT_LIBS)

# What a user starts from: pkg-config and the examples with a Makefile of their own.
pkgconfigdir = $(libdir)/pkgconfig
nodist_pkgconfig_DATA = rlx.pc
examplesdir = $(docdir)/examples
dist_examples_DATA = contrib/examples/Makefile contrib/examples/hello.cc
examplestraindir = $(examplesdir)/train
dist_examplestrain_DATA = $(train_sources)

examplesslurmdir = $(examplesdir)/slurm
dist_examplesslurm_DATA = contrib/slurm/rlxrun.sbatch contrib/slurm/srun.sbatch contrib/slurm/restart.sbatch

# Scripts: the README's two commands and what CI adds.
EXTRA_DIST += contrib/build contrib/run contrib/check contrib/fuzz contrib/check-style .clang-format .clang-tidy contrib/README.md
check-style:
	cd $(srcdir) && contrib/check-style
.PHONY: check-style
include contrib/bench/fabrics.mk
include contrib/bench/kernels.mk
include contrib/bench/coll.mk
# Built by make check so that they cannot rot; run by hand.
check_DATA += $(BENCHMARKS)
CLEANFILES += $(BENCHMARKS)
