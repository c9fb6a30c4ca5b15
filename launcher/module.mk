# Sources of launcher/: liblauncher.la holds all but main, for the tests.
noinst_LTLIBRARIES += liblauncher.la
liblauncher_la_SOURCES = \
  launcher/command_line.h launcher/command_line.cc launcher/option_table.h launcher/option_table.cc \
  launcher/option_foreign.cc launcher/option_apply.h launcher/option_values.h launcher/option_values.cc \
  launcher/app_file.h launcher/app_file.cc launcher/shell_words.h launcher/shell_words.cc \
  launcher/help.h launcher/help.cc \
  launcher/hosts.h launcher/hosts.cc launcher/allocation.h launcher/allocation.cc \
  launcher/host_ranges.h launcher/host_ranges.cc launcher/host_file.h launcher/host_file.cc \
  launcher/resource_manager.h launcher/resource_manager.cc \
  launcher/host_table.h launcher/host_table.cc launcher/node_facts.h launcher/node_facts.cc \
  launcher/map.h launcher/map.cc launcher/seats.h launcher/seats.cc launcher/bind.h launcher/bind.cc \
  launcher/gpus.h launcher/gpus.cc launcher/gpu_probe.h launcher/gpu_probe.cc \
  launcher/rank_file.h launcher/rank_file.cc launcher/described.h launcher/described.cc \
  launcher/plan.h launcher/plan.cc launcher/display.h launcher/display.cc \
  launcher/environment.h launcher/environment.cc launcher/lines.h launcher/lines.cc \
  launcher/terminal.h launcher/terminal.cc launcher/writer.h launcher/writer.cc \
  launcher/output.h launcher/output.cc launcher/stdin_source.h launcher/stdin_source.cc \
  launcher/user_terminal.h launcher/user_terminal.cc \
  launcher/outcome.h launcher/outcome.cc launcher/head.h launcher/head.cc launcher/head_spawn.cc \
  launcher/head_show.cc launcher/head_hold.cc launcher/head_signals.cc launcher/loop.h launcher/loop.cc \
  launcher/node.h launcher/local_node.h launcher/local_node.cc launcher/local_node_end.cc \
  launcher/rank_stream.h launcher/rank_stream.cc launcher/rank_terminal.h launcher/rank_terminal.cc launcher/rank_files.h launcher/rank_files.cc \
  launcher/process.h launcher/process.cc launcher/process_list.cc launcher/guard.h launcher/guard.cc \
  launcher/scratch.h launcher/scratch.cc launcher/node_home.h launcher/node_home.cc \
  launcher/frame.h launcher/frame.cc launcher/node_codec.h launcher/node_codec.cc launcher/node_fields.h \
  launcher/link.h launcher/link.cc launcher/helpers.h launcher/helpers.cc launcher/agent.h launcher/agent.cc \
  launcher/branches.h launcher/branches.cc launcher/branches_start.cc \
  launcher/dial.h launcher/dial.cc launcher/muster.h launcher/muster.cc launcher/step.h launcher/srun.cc \
  launcher/flux.h launcher/flux.cc launcher/daemon.h launcher/daemon.cc launcher/cluster.h \
  launcher/cluster_node.h launcher/cluster.cc launcher/cluster_start.cc launcher/launch.h launcher/launch.cc \
  launcher/mpir.h launcher/mpir.cc launcher/status.h launcher/status.cc launcher/stacks.h launcher/stacks.cc

bin_PROGRAMS += rlxrun
rlxrun_SOURCES = launcher/main.cc
rlxrun_LDADD = $(LAUNCHER_LIBS)
EXTRA_DIST += launcher/README.md
