// SPDX-License-Identifier: MIT OR Apache-2.0
// What people type for other launchers: Open MPI 1.x to 5, MPICH, Intel MPI, torchrun. Each either
// works, or is accepted with one warning that lists it, or says in one line what to use.
#include <fmt/format.h>

#include "base/words.h"
#include "launcher/option_apply.h"

namespace rlx::launcher {
namespace {

Status map_by(CommandLine& line, const std::string& how) { return read_map_by(how, line.map); }

// A part of PRRTE's --output: "tag", "dir=D", ...
Status read_output_part(std::string_view part, OutputOptions& output) {
  if (part == "tag" || part == "rank") {
    output.tag = Tag::kRank;
  } else if (part == "tag-detailed") {
    output.tag = Tag::kHost;
  } else if (part == "tag-fullname") {
    output.tag = Tag::kFull;
  } else if (part == "timestamp") {
    output.timestamp = true;
  } else if (part == "merge" || part == "merge-stderr-to-stdout") {
    output.merge_stderr = true;
  } else if (part.starts_with("dir=")) {
    RLX_TRY_ASSIGN(output.directory, read_directory(std::string(part.substr(4))));
    output.tee = true;
  } else if (part.starts_with("file=")) {
    RLX_TRY_ASSIGN(output.files, read_output_file(std::string(part.substr(5))));
    output.tee = true;
  } else if (part == "nocopy") {
    output.tee = false;
  } else {
    return fail(
        Code::kInvalid,
        fmt::format(
            "'{}' is not tag, tag-detailed, tag-fullname, timestamp, merge, dir=DIR, file=PATTERN "
            "or nocopy",
            part));
  }
  return {};
}

Status read_output(CommandLine& line, AppLine&, Words w) {
  for (const auto& parts : split(w[0], ':'))  // what follows a colon changes how, not what
    for (const auto& part : split(parts, ',')) RLX_TRY(read_output_part(part, line.output));
  return {};
}

Status exclude(CommandLine&, AppLine& app, Words w) {
  for (const auto& name : split(w[0], ','))
    app.environment.push_back({EnvironmentEdit::Kind::kUnset, name, ""});
  return {};
}

Status add_pair(CommandLine&, AppLine& app, Words w) {
  if (w.size() == 1) {  // NAME=VALUE
    RLX_TRY_ASSIGN(auto edit, read_environment_edit(w[0]));
    app.environment.push_back(std::move(edit));
    return {};
  }
  app.environment.push_back({EnvironmentEdit::Kind::kSet, w[0], w[1]});
  return {};
}

Status pass_nothing(CommandLine&, AppLine& app, Words) {
  app.environment.push_back({EnvironmentEdit::Kind::kUnset, "*", ""});
  return {};
}

Status nothing(CommandLine&, AppLine&, Words) { return {}; }

// Without an `apply`, the sentence is what to do instead.
constexpr Apply kRefused = nullptr;

constexpr Option kForeign[] = {
    {"--display-map", "-display-map", "", Group::kForeign, false, "",
     set<true, &CommandLine::show_map>},
    {"--display-allocation", "-display-allocation", "", Group::kForeign, false, "",
     set<true, &CommandLine::show_allocation>},
    {"--output-filename", "-output-filename -outdir", "DIR", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words w) -> Status {
       RLX_TRY_ASSIGN(line.output.directory, read_directory(w[0]));
       line.output.tee = true;
       return {};
     }},
    {"--bind-to-core", "-bind-to-core", "", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) { return read_bind_to("core", line.map); }},
    {"--bind-to-none", "-bind-to-none", "", Group::kForeign, false, "",
     set<BindTo::kNone, &CommandLine::map, &MapOptions::bind>},
    {"-genv", "--genv -env", "NAME VALUE", Group::kForeign, true, "", add_pair},
    {"-genvnone", "-envnone", "", Group::kForeign, true, "", pass_nothing},
    {"--allow-run-as-root", "-allow-run-as-root", "", Group::kForeign, false, "", nothing},
    {"-genvall", "-envall", "", Group::kForeign, true, "", nothing},
    {"--nooversubscribe", "-nooversubscribe --report-state-on-timeout", "", Group::kForeign, true,
     "", nothing},
    {"--mca", "-mca --omca --prtemca --pmixmca --gmca -gmca", "KEY VALUE", Group::kForeign, true,
     "ignored", nothing},
    {"-iface", "--iface --net --network-interface", "LIST", Group::kForeign, true, "",
     [](CommandLine&, AppLine& app, Words w) -> Status {
       app.environment.push_back({EnvironmentEdit::Kind::kSet, "RLX_NET", w[0]});
       return {};
     }},
    {"-ifhn",
     "--forward-signals -genvlist -envlist --tune -am --personality -hostos --pset -pset "
     "--initial-errhandler --stream-buffering -stream-buffering -topolib --topolib",
     "VALUE", Group::kForeign, true, "ignored", nothing},
    {"--use-hwthread-cpus",
     "-use-hwthread-cpus --enable-orterun-prefix-by-default --noprefix --novm --do-not-resolve "
     "-do-not-resolve --index-argv-by-rank -index-argv-by-rank -silent-abort "
     "-disable-hostname-propagation -enable-hostname-propagation -rdma -RDMA -dapl -DAPL -ib -IB "
     "-ofi -OFI -tmi -TMI -psm -PSM -psm2 -PSM2",
     "", Group::kForeign, true, "ignored", nothing},
    {"--bynode", "-bynode -rr --round-robin -cyclic", "", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) { return map_by(line, "node"); }},
    {"--bycore", "-bycore", "", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) { return map_by(line, "core"); }},
    {"--byslot", "-byslot", "", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) { return map_by(line, "slot"); }},
    {"--pernode", "-pernode", "", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) { return map_by(line, "ppr:1:node"); }},
    {"--npersocket", "-npersocket", "N", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words w) {
       return map_by(line, fmt::format("ppr:{}:package", w[0]));
     }},
    {"--cpus-per-proc", "-cpus-per-proc --cpus-per-rank -cpus-per-rank", "N", Group::kForeign,
     false, "", [](CommandLine& line, AppLine&, Words w) { return map_by(line, ":pe=" + w[0]); }},
    {"--bind-to-socket", "-bind-to-socket", "", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) { return read_bind_to("package", line.map); }},
    {"--display-devel-map", "-display-devel-map -print-rank-map --print-rank-map", "",
     Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words) -> Status {
       line.show_map = line.report_bindings = true;
       return {};
     }},
    {"--display-topo", "-display-topo", "", Group::kForeign, false, "",
     set<true, &CommandLine::show_topology>},
    {"--continuous", "-continuous --no-kill -disable-auto-cleanup --enable-recovery", "",
     Group::kForeign, false, "",
     set<OnFailure::kNotify, &CommandLine::end, &EndOptions::on_failure>},
    {"--with-ft", "-with-ft", "WHAT", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words w) -> Status {
       if (w[0] != "no" && w[0] != "false" && w[0] != "0") line.end.on_failure = OnFailure::kNotify;
       return {};
     }},
    // Our own words to ourselves when a job is started again.
    {"--restarted", "", "N", Group::kForeign, false, "",
     read<at_least_one, &CommandLine::restarted>},
    {"--without-hosts", "", "LIST", Group::kForeign, false, "",
     read<text, &CommandLine::lost_hosts>},
    {"--used", "", "TIME", Group::kForeign, false, "",
     [](CommandLine& line, AppLine&, Words w) -> Status {
       RLX_TRY_ASSIGN(const double used_s, read_seconds(w[0]));
       line.began_s -= used_s;
       return {};
     }},
    {"--output", "", "PARTS", Group::kForeign, false, "", read_output},
    {"-genvexcl", "-envexcl", "LIST", Group::kForeign, true, "", exclude},

    // Done anyway: all variables are passed, lines are whole, the head cleans up.
    {"-ordered-output", "-cleanup --kill-on-bad-exit -K --standalone", "", Group::kForeign, false,
     "", nothing},

    // Ours differs, and the job runs nevertheless.
    {"-membind",
     "--membind --mem-bind -order-nodes --order-nodes -umask -localhost -demux --report-pid "
     "--report-uri -report-pid "
     "-report-uri --server-wait-time",
     "VALUE", Group::kForeign, false, "ignored", nothing},
    {"--loadbalance", "-loadbalance --xml -xml --quiet-abort -print-all-exitcodes -noconf", "",
     Group::kForeign, false, "ignored", nothing},

    {"--debug", "-debug -gdb --gdb -tv --tv -ddt --debugger --stop-on-exec", "", Group::kForeign,
     false,
     "start the debugger on rlxrun itself (gdb --args rlxrun ...), or let it attach: rlxrun has "
     "the "
     "MPIR process table",
     kRefused},
    {"--xterm", "-xterm", "RANKS", Group::kForeign, false,
     "start one yourself: rlxrun -n 1 xterm -e ./prog : -n 3 ./prog", kRefused},
    {"--preload-binary", "-preload-binary --preload-files -preload-files", "", Group::kForeign,
     false, "put the files on every host first: a shared directory, scp, or sbcast under Slurm",
     kRefused},
    {"--dvm", "-dvm --dvm-uri --hnp -hnp --ompi-server -ompi-server --system-server-first", "WHICH",
     Group::kForeign, false, "not needed: each rlxrun starts its own daemons and name server",
     kRefused},
    {"-prepend-pattern", "--prepend-pattern", "PATTERN", Group::kForeign, false,
     "use --tag-output=rank|host|full", kRefused},
    {"-outfile-pattern", "-errfile-pattern --outfile-pattern --errfile-pattern", "PATTERN",
     Group::kForeign, false,
     "use --output-file PATTERN for both streams: %r is the rank, %h the host, %s out or err",
     kRefused},
    {"-path", "--path", "DIRS", Group::kForeign, false,
     "name the program with its directory, or pass -x PATH=...", kRefused},
    {"-tmpdir", "--tmpdir", "DIR", Group::kForeign, false, "set RLX_TMPDIR", kRefused},
    {"-info", "--info", "", Group::kForeign, false, "run rlx-info", kRefused},
    {"-trace", "-t -check_mpi -check-mpi -aps -mps -gtool --exec-agent", "WHAT", Group::kForeign,
     false, "start the tool in front of the program: rlxrun -n 4 tool ./prog", kRefused},
    {"-grr", "-rankmap --rankmap", "WHAT", Group::kForeign, false,
     "use --map-by node, or --map-by ppr:N:node", kRefused},
    {"--master_port",
     "--master-port --master_addr --master-addr --rdzv_endpoint --rdzv-endpoint --rdzv_backend "
     "--rdzv-backend --rdzv_id --rdzv-id --node_rank --node-rank",
     "VALUE", Group::kForeign, false,
     "not needed: every rank is given MASTER_ADDR and MASTER_PORT of rank 0's host", kRefused},
    {"--nolocal", "-nolocal -skip-launch-node", "", Group::kForeign, false,
     "name the hosts without this one: --host LIST or --hostfile FILE", kRefused},
    {"--add-host", "--add-hostfile", "HOSTS", Group::kForeign, false,
     "--host LIST and --hostfile FILE name all hosts of a job", kRefused},
    {"--default-hostfile", "-default-hostfile", "FILE", Group::kForeign, false,
     "use --hostfile FILE, or set RLX_HOSTFILE", kRefused},
    {"--runtime-options", "--rto", "PARTS", Group::kForeign, false,
     "use --timeout, --stacks, --show-progress, --dry-run, --on-failure or --max-restarts",
     kRefused},
    {"--soft", "-soft", "SET", Group::kForeign, false, "-n N starts N ranks, or none", kRefused},
    {"-genvappend", "--append-env --prepend-env", "NAME VALUE", Group::kForeign, true,
     "let the shell put it together: -x \"NAME=$NAME:MORE\"", kRefused},
    {"-tune", "", "FILE", Group::kForeign, false,
     "leave it out: algorithms are chosen by themselves, and rlx-info explain says how", kRefused},
    {"--nnodes", "", "N", Group::kForeign, false, "name the hosts: --host a,b or --hostfile FILE",
     kRefused},
};

}  // namespace

std::span<const Option> foreign_options() { return kForeign; }

}  // namespace rlx::launcher
