// SPDX-License-Identifier: MIT OR Apache-2.0
// Starting ranks and passing their input and output; their end is in local_node_end.cc.
#include "launcher/local_node.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "launcher/environment.h"
#include "launcher/rank_terminal.h"

namespace rlx::launcher {
namespace {

constexpr const char* kDefaultPath = "/usr/local/bin:/usr/bin:/bin";  // of programs without a PATH

RankFacts facts_of(const JobSpec& job, std::uint32_t rank) {
  const RankSpec& spec = job.ranks[rank];
  RankFacts facts;
  facts.rank = rank;
  facts.size = static_cast<std::uint32_t>(job.ranks.size());
  facts.local_rank = spec.local_rank;
  facts.local_size = static_cast<std::uint32_t>(
      std::count_if(job.ranks.begin(), job.ranks.end(),
                    [&](const RankSpec& other) { return other.node == spec.node; }));
  facts.node = spec.node;
  facts.n_nodes = static_cast<std::uint32_t>(job.nodes.size());
  facts.job_id = job.id;
  facts.threads = static_cast<int>(spec.threads);
  return facts;
}

bool has_terminal(const JobSpec& job, std::uint32_t rank) {
  return job.pty && job.pty->rank == rank;
}

}  // namespace

pmix::Job describe(const JobSpec& spec) {
  pmix::Job job;
  job.name = spec.name;
  job.nodes = spec.nodes;
  for (const auto& app : spec.apps) job.apps.push_back({app.argv, app.wdir});
  for (const auto& rank : spec.ranks) job.ranks.push_back({rank.node, rank.app, rank.cpus});
  job.universe_size = spec.universe_size;
  job.oversubscribed = spec.oversubscribed;
  job.parent = spec.parent;
  job.stop_in_init = spec.stop_in_init;
  return job;
}

Result<std::unique_ptr<LocalNode>> LocalNode::create(Loop& loop, NodeSetup setup, NodeEvents& head,
                                                     std::unique_ptr<pmix::Exchange> exchange) {
  std::unique_ptr<LocalNode> node(new LocalNode(loop, std::move(setup), head));
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return fail_errno("cannot adopt orphans");
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  node->child_signal_ = Fd(signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!node->child_signal_) return fail_errno("cannot watch children");
  LocalNode* raw = node.get();
  node->child_watch_ = loop.on_readable(node->child_signal_.get(), [raw] { raw->reap(); });
  pmix::ServerOptions options;
  options.tmpdir = node->setup_.scratch;
  options.hostname = node->setup_.hostname;
  options.node = node->setup_.index;
  options.topology = node->setup_.topology;
  RLX_TRY_ASSIGN(node->server_, pmix::Server::start(options, std::move(exchange)));
  node->server_watch_ =
      loop.on_readable(node->server_->fd(), [raw] { raw->server_->dispatch(*raw); });
  return node;
}

LocalNode::LocalNode(Loop& loop, NodeSetup setup, NodeEvents& head)
    : loop_(loop), setup_(std::move(setup)), head_(head) {}
LocalNode::~LocalNode() = default;

void LocalNode::start(const JobSpec& spec) {
  std::vector<Runnable> programs;
  if (const auto problem = find_programs(spec, programs))
    return head_.not_started(setup_.index, spec.number, *problem);
  if (auto status = server_->register_job(describe(spec)); !status)
    return head_.not_started(setup_.index, spec.number, {1, status.error().text});
  Job& job = jobs_[spec.number];
  job.spec = spec;
  for (auto& app : job.spec.apps) {
    Environment environment(std::move(app.environment));
    leave_task(environment, app.chosen);
    if (setup_.environment) move_to_this_host(environment, *setup_.environment, app.chosen);
    app.environment = std::move(environment).take();
  }
  if (setup_.guard) {  // other nodes of the job may be on this machine too
    setup_.guard->marked_by("RLX_JOBID=" + spec.id);
    setup_.guard->marked_by(fmt::format("RLX_NODE_RANK={}", setup_.index));
  }
  StartBatch batch;
  std::optional<StartProblem> problem;
  for (std::uint32_t rank = 0; rank < spec.ranks.size() && !problem; ++rank) {
    if (spec.ranks[rank].node != setup_.index) continue;
    problem = start_rank(job, rank, programs[spec.ranks[rank].app], batch);
    if (problem) server_->rank_ended({spec.name, rank}, {pmix::Ending::Kind::kNotStarted, 0});
  }
  auto unconfirmed = confirm_started(job, batch);
  if (!problem) problem = std::move(unconfirmed);
  if (problem) head_.not_started(setup_.index, spec.number, *problem);
}

// Tells the head of all ranks that run, and returns the first problem of those that do not.
std::optional<StartProblem> LocalNode::confirm_started(Job& job, StartBatch& batch) {
  std::optional<StartProblem> first;
  std::map<pid_t, std::string> notes;
  for (const auto& trouble : batch.wait()) {
    const auto rank = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const auto& entry) {
      return entry.second.pid == trouble.pid;
    });
    if (trouble.failure.exit_code == 0) {
      notes[trouble.pid] =
          fmt::format("cannot bind rank {} to cpus {}: {}", rank->first,
                      job.spec.ranks[rank->first].cpus, strerror(trouble.bind_error));
      continue;
    }
    if (!first) first = StartProblem{trouble.failure.exit_code, trouble.failure.problem};
    server_->rank_ended({job.spec.name, rank->first}, {pmix::Ending::Kind::kNotStarted, 0});
    job.ranks.erase(rank);
    --job.running;
  }
  for (const auto& [rank, process] : job.ranks)
    head_.started({job.spec.number, rank}, process.pid, notes[process.pid]);
  return first;
}

std::optional<StartProblem> LocalNode::find_programs(const JobSpec& job,
                                                     std::vector<Runnable>& programs) const {
  std::vector<bool> used(job.apps.size());
  for (const auto& rank : job.ranks)
    if (rank.node == setup_.index) used[rank.app] = true;
  for (std::size_t i = 0; i < job.apps.size(); ++i) {
    if (!used[i]) {
      programs.emplace_back();
      continue;
    }
    const AppSpec& app = job.apps[i];
    struct ::stat info {};
    if (!app.wdir.empty() && ::stat(app.wdir.c_str(), &info) != 0)
      return StartProblem{1, fmt::format("directory {}: {}", app.wdir, strerror(errno))};
    const std::string path = Environment(app.environment).get("PATH").value_or(kDefaultPath);
    const Program program = find_program(app.argv[0], app.wdir, path);
    if (program.exit_code != 0) return StartProblem{program.exit_code, program.problem};
    programs.push_back({program.file, pmix::protocol_of(program.file)});
  }
  return std::nullopt;
}

Result<pmix::ChildSetup> LocalNode::environment_of(const JobSpec& job, std::uint32_t rank,
                                                   const Runnable& program) {
  const AppSpec& app = job.apps[job.ranks[rank].app];
  const auto protocol = app.pmi1 ? pmix::Protocol::kPmi1 : program.protocol;
  RLX_TRY_ASSIGN(auto setup, server_->environment({job.name, rank}, app.environment, protocol));
  Environment environment(std::move(setup.environment));
  add_rank_variables(environment, facts_of(job, rank));
  add_master(environment, job.master_address, job.master_port);
  for (const auto& entry : job.ranks[rank].environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos)
      environment.unset(entry);
    else
      environment.set(entry.substr(0, equals), entry.substr(equals + 1));
  }
  // Open MPI leaves segments behind when it is killed: in a directory of ours they are found.
  if (!setup_.shm_scratch.empty())
    environment.set_default("OMPI_MCA_btl_vader_backing_directory", setup_.shm_scratch);
  setup.environment = std::move(environment).take();
  return setup;
}

Status LocalNode::open_streams(const JobSpec& job, std::uint32_t rank, Pipes& pipes) {
  if (!has_terminal(job, rank)) return open_pipes(job, rank, pipes);
  RLX_TRY(open_terminal(job.pty->size, pipes.rank_side[0], pipes.node_side[0]));
  pipes.node_side[1] = Fd(fcntl(pipes.node_side[0].get(), F_DUPFD_CLOEXEC, 3));
  if (!pipes.node_side[1]) return fail_errno("cannot share a pseudo-terminal (ulimit -n?)");
  return {};
}

Status LocalNode::open_pipes(const JobSpec& job, std::uint32_t rank, Pipes& pipes) {
  const auto& readers = job.stdin_ranks;
  if (std::find(readers.begin(), readers.end(), rank) == readers.end())
    pipes.rank_side[0] = Fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  else if (job.inherit_stdin)
    pipes.rank_side[0] = Fd(fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  else
    RLX_TRY(make_pipe(pipes.rank_side[0], pipes.node_side[0]));
  RLX_TRY(make_pipe(pipes.node_side[1], pipes.rank_side[1]));
  if (!job.output.merge_stderr) RLX_TRY(make_pipe(pipes.node_side[2], pipes.rank_side[2]));
  if (!job.output.files.empty()) RLX_TRY(files_.open(job, rank));
  return {};
}

void LocalNode::watch_pipes(Job& job, std::uint32_t rank, Pipes pipes) {
  Rank& started = job.ranks[rank];
  StreamOwner& owner = *this;
  const RankId id{job.spec.number, rank};
  const OutputSpec& output = job.spec.output;
  const Channel channel = has_terminal(job.spec, rank) ? Channel::kTerminal : Channel::kPipe;
  if (pipes.node_side[0])
    started.in =
        std::make_unique<InputStream>(loop_, owner, id, std::move(pipes.node_side[0]), channel);
  started.out = std::make_unique<OutputStream>(loop_, owner, id, Stream::kStdout,
                                               std::move(pipes.node_side[1]), output, channel);
  if (pipes.node_side[2])
    started.err = std::make_unique<OutputStream>(loop_, owner, id, Stream::kStderr,
                                                 std::move(pipes.node_side[2]), output);
}

std::optional<StartProblem> LocalNode::start_rank(Job& job, std::uint32_t rank,
                                                  const Runnable& program, StartBatch& batch) {
  const RankSpec& place = job.spec.ranks[rank];
  const AppSpec& app = job.spec.apps[place.app];
  Pipes pipes;
  auto child = environment_of(job.spec, rank, program);
  const Status ready = child ? open_streams(job.spec, rank, pipes) : tl::unexpected(child.error());
  if (!ready) return StartProblem{1, ready.error().text};
  const CpuSet cpus = place.cpus.empty() ? CpuSet() : CpuSet::parse(place.cpus).value();
  ProcessSpec spec;
  spec.file = program.file;
  spec.argv = &app.argv;
  spec.environment = &child->environment;
  spec.wdir = app.wdir;
  spec.owns_terminal = has_terminal(job.spec, rank);
  const int out = spec.owns_terminal ? 0 : 1;
  const int err = job.spec.output.merge_stderr ? out : spec.owns_terminal ? 0 : 2;
  spec.stdin_fd = pipes.rank_side[0].get();
  spec.stdout_fd = pipes.rank_side[out].get();
  spec.stderr_fd = pipes.rank_side[err].get();
  spec.kept_fd = child->pmi_fd;
  spec.cpus = &cpus;
  spec.signal_mask = setup_.signal_mask;
  spec.ignores_sigpipe = setup_.ignores_sigpipe;
  const pid_t pid = batch.start(spec);
  const int error = errno;
  if (child->pmi_fd >= 0) close(child->pmi_fd);
  if (pid < 0)
    return StartProblem{1, fmt::format("cannot start a process: {} (ulimit -u?)", strerror(error))};
  if (setup_.guard) setup_.guard->started_session(pid);
  job.ranks[rank].pid = pid;
  job.ranks[rank].running = true;
  server_->rank_started({job.spec.name, rank}, pid);
  ++job.running;
  watch_pipes(job, rank, std::move(pipes));
  return std::nullopt;
}

LocalNode::Rank* LocalNode::find(RankId id) {
  const auto job = jobs_.find(id.job);
  if (job == jobs_.end()) return nullptr;
  const auto rank = job->second.ranks.find(id.rank);
  return rank == job->second.ranks.end() ? nullptr : &rank->second;
}

RankId LocalNode::id_of(const pmix::ProcId& proc) const {
  for (const auto& [number, job] : jobs_)
    if (job.spec.name == proc.job) return {number, proc.rank};
  return {UINT32_MAX, proc.rank};
}

std::vector<RankId> LocalNode::ids_of(const std::vector<pmix::ProcId>& procs) const {
  std::vector<RankId> ids;
  for (const auto& proc : procs) ids.push_back(id_of(proc));
  return ids;
}

bool LocalNode::text(OutputStream& stream, Text text) {
  const JobSpec& job = jobs_.at(stream.rank().job).spec;
  if (!job.output.files.empty())
    if (auto status = files_.write(stream.rank(), stream.stream(), text); !status)
      head_.output_lost(stream.rank(), status.error().text);
  const bool send = job.output.send || has_terminal(job, stream.rank().rank);
  if (send) head_.output(stream.rank(), stream.stream(), std::move(text));
  return send;
}

void LocalNode::ended(OutputStream& stream) {
  // Nobody has the terminal open any more, and nobody will read from it.
  if (has_terminal(jobs_.at(stream.rank().job).spec, stream.rank().rank))
    find(stream.rank())->in.reset();
  head_.output_ended(stream.rank(), stream.stream());
  check_quiet();
}

void LocalNode::output_taken(RankId id, Stream stream, std::size_t n_bytes) {
  Rank* rank = find(id);
  if (!rank) return;
  OutputStream* output = stream == Stream::kStdout ? rank->out.get() : rank->err.get();
  if (output && output->is_open()) output->taken(n_bytes);
}

void LocalNode::input(RankId id, std::string bytes) {
  Rank* rank = find(id);
  if (rank && rank->in) return rank->in->write(std::move(bytes));
  head_.input_taken(id, bytes.size(), true);
}

void LocalNode::input_ended(RankId id) {
  Rank* rank = find(id);
  if (rank && rank->in) rank->in->end();
}

void LocalNode::resize(RankId id, WindowSize size) {
  const Rank* rank = find(id);
  if (rank && rank->in) set_window(rank->in->fd(), size);
}

void LocalNode::input_taken(InputStream& stream, std::size_t n_bytes, bool closed) {
  head_.input_taken(stream.rank(), n_bytes, closed);
}

void LocalNode::connected(const pmix::ProcId& proc) {
  const RankId id = id_of(proc);
  const auto job = jobs_.find(id.job);
  if (job != jobs_.end() && !std::exchange(job->second.joined, true)) head_.joined(id);
}

void LocalNode::held(const pmix::ProcId& proc) {
  const RankId id = id_of(proc);
  Rank* rank = find(id);
  if (!rank || !jobs_.at(id.job).spec.stop_in_init) return;
  rank->held = true;
  head_.held(id);
}

void LocalNode::release() {
  for (auto& [number, job] : jobs_) {
    job.spec.stop_in_init = false;
    for (auto& [rank, process] : job.ranks) process.held = false;
  }
  server_->release();
}

void LocalNode::aborted(const pmix::ProcId& by, int status, const std::string& message,
                        const std::vector<pmix::ProcId>& victims) {
  head_.aborted(id_of(by), status, message, ids_of(victims));
}

void LocalNode::control(const pmix::ProcId& by, const pmix::Control& control,
                        const std::vector<pmix::ProcId>& targets) {
  head_.control_wanted(id_of(by), control, ids_of(targets));
}

void LocalNode::spawn(pmix::SpawnRequest request) {
  const RankId by = id_of(request.parent);
  head_.spawn_wanted(by, std::move(request));
}

void LocalNode::spawn_answer(std::uint64_t id, const Result<std::string>& job) {
  server_->spawned(id, job);
}

void LocalNode::logged(const pmix::ProcId& from, pmix::LogChannel channel,
                       const std::string& text) {
  const bool whole = text.ends_with('\n');
  head_.output(id_of(from),
               channel == pmix::LogChannel::kStdout ? Stream::kStdout : Stream::kStderr,
               {whole ? text : text + "\n", true});
}

}  // namespace rlx::launcher
