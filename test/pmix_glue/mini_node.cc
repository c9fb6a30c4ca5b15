// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/pmix_glue/mini_node.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <map>
#include <memory>
#include <stdexcept>

#include "pmix_glue/tree_exchange.h"
#include "test/pmix_glue/mini_channel.h"

namespace rlx::test {
namespace {

using nlohmann::json;
using pmix::Ending;
using pmix::Job;
using pmix::ProcId;
using pmix::Server;

std::vector<std::string> own_environment() {
  std::vector<std::string> out;
  for (char** e = environ; *e != nullptr; ++e)
    if (!pmix::belongs_to_a_launcher(
            std::string_view(*e).substr(0, std::string_view(*e).find('='))))
      out.emplace_back(*e);
  return out;
}

int shell_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Job job_from(const json& message) {
  Job job;
  job.name = message.at("job");
  job.nodes = message.at("nodes");
  for (const auto& app : message.at("apps")) job.apps.push_back({app.at(0), app.at(1)});
  for (const auto& rank : message.at("ranks"))
    job.ranks.push_back({rank.at(0), rank.at(1), rank.at(2)});
  job.universe_size = static_cast<uint32_t>(job.ranks.size()) + 2;
  job.oversubscribed = true;
  if (message.contains("parent"))
    job.parent = ProcId{message["parent"].at(0), message["parent"].at(1)};
  return job;
}

json to_json(const ProcId& id) { return {id.job, id.rank}; }

class MiniNode final : public pmix::Host, public pmix::Carrier {
 public:
  MiniNode(const MiniNodeSetup& setup, const HostedOptions& options)
      : setup_(setup), options_(options), head_(setup.fd) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
    signal_fd_ = ::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    const pmix::ServerOptions server{setup.dir, setup.hostname,
                                     setup.is_alone ? 0 : setup.place.self, nullptr};
    auto started = [&] {
      if (setup.is_alone) return Server::start(server);
      auto exchange = std::make_unique<pmix::TreeExchange>(setup.place, *this);
      exchange_ = exchange.get();
      return Server::start(server, std::move(exchange));
    }();
    if (!started) throw std::runtime_error(started.error().text);
    server_ = std::move(*started);
  }
  ~MiniNode() override {
    kill_all();
    for (const auto& [pid, rank] : children_) ::waitpid(pid, nullptr, 0);
    server_.reset();
    ::close(signal_fd_);
  }

  void serve() {
    while (!over_) {
      pollfd fds[] = {
          {server_->fd(), POLLIN, 0}, {signal_fd_, POLLIN, 0}, {head_.fd(), head_.events(), 0}};
      ::poll(fds, 3, -1);
      server_->dispatch(*this);
      reap();
      std::vector<json> messages;
      if (!head_.receive(messages)) ::_exit(1);  // the head was killed, and so are we
      for (const auto& message : messages) obey(message);
      head_.flush();
    }
  }

 private:
  // Host
  void connected(const ProcId&) override {}
  void held(const ProcId&) override {}
  void finalized(const ProcId&) override {}
  void aborted(const ProcId& by, int status, const std::string& message,
               const std::vector<ProcId>& victims) override {
    json list = json::array();
    for (const auto& victim : victims) list.push_back(to_json(victim));
    head_.send(
        {{"aborted", to_json(by)}, {"status", status}, {"text", message}, {"victims", list}});
  }
  void control(const ProcId&, const pmix::Control&, const std::vector<ProcId>&) override {}
  void spawn(pmix::SpawnRequest request) override {
    json apps = json::array();
    for (const auto& app : request.apps)
      apps.push_back({app.argv, app.wdir, app.n_ranks, app.environment, app.hosts});
    head_.send({{"spawn", request.id}, {"parent", to_json(request.parent)}, {"apps", apps}});
  }
  void logged(const ProcId&, pmix::LogChannel, const std::string& text) override {
    head_.send({{"logged", text}});
  }
  // Carrier
  void send(uint32_t to, std::string frame) override {
    head_.send({{"carry", to}, {"frame", as_binary(frame)}});
  }

  void obey(const json& message) {
    if (message.contains("frame")) {
      const auto status = exchange_->deliver(message.at("from"), from_binary(message.at("frame")));
      if (!status) throw std::runtime_error(status.error().text);
    } else if (message.contains("launch")) {
      const auto launched = launch(job_from(message), message.at("environment"));
      head_.send(
          {{"launched", message.at("job")}, {"error", launched ? "" : launched.error().text}});
    } else if (message.contains("spawned")) {
      const std::string job = message.at("job");
      server_->spawned(message.at("spawned"),
                       job.empty() ? Result<std::string>(fail(Code::kInvalid, "no such program"))
                                   : Result<std::string>(job));
    } else if (message.contains("kill")) {
      for (const auto& [pid, rank] : children_)
        for (const auto& victim : message.at("kill"))
          if (rank == ProcId{victim.at(0), victim.at(1)}) ::kill(pid, SIGKILL);
    } else if (message.contains("kill_all")) {
      kill_all();
    } else {
      over_ = true;
    }
  }

  Status launch(const Job& job, const std::vector<std::string>& extra) {
    RLX_TRY(server_->register_job(job));
    auto base = own_environment();
    base.insert(base.end(), options_.environment.begin(), options_.environment.end());
    base.insert(base.end(), extra.begin(), extra.end());
    for (uint32_t r = 0; r < job.ranks.size(); ++r) {
      if (!setup_.is_alone && job.ranks[r].node != setup_.place.self) continue;
      const auto& argv = job.apps[job.ranks[r].app].argv;
      const auto protocol = options_.protocol ? *options_.protocol : pmix::protocol_of(argv[0]);
      RLX_TRY_ASSIGN(const pmix::ChildSetup child,
                     server_->environment({job.name, r}, base, protocol));
      const pid_t pid = start(argv, child);
      if (child.pmi_fd >= 0) ::close(child.pmi_fd);
      children_[pid] = {job.name, r};
      server_->rank_started({job.name, r}, pid);
    }
    return {};
  }

  pid_t start(std::vector<std::string> argv, pmix::ChildSetup child) {
    std::vector<char*> args, environment;
    for (auto& arg : argv) args.push_back(arg.data());
    for (auto& entry : child.environment) environment.push_back(entry.data());
    args.push_back(nullptr);
    environment.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (options_.die_with_us) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_UNBLOCK, &signals_, nullptr);
    const int out = ::open(setup_.output.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    if (child.pmi_fd >= 0) ::fcntl(child.pmi_fd, F_SETFD, 0);
    ::execvpe(args[0], args.data(), environment.data());
    ::_exit(127);
  }

  void reap() {
    signalfd_siginfo info;
    while (::read(signal_fd_, &info, sizeof info) > 0) {
    }
    int status = 0;
    for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto child = children_.extract(pid);
      if (child.empty()) continue;
      const ProcId rank = child.mapped();
      const auto state = server_->state(rank);
      server_->rank_ended(rank, WIFSIGNALED(status)
                                    ? Ending{Ending::Kind::kSignaled, WTERMSIG(status)}
                                    : Ending{Ending::Kind::kExited, WEXITSTATUS(status)});
      head_.send({{"exited", to_json(rank)},
                  {"status", shell_status(status)},
                  {"connected", state.connected},
                  {"finalized", state.finalized}});
    }
  }

  void kill_all() {
    for (const auto& [pid, rank] : children_) ::kill(pid, SIGKILL);
  }

  const MiniNodeSetup& setup_;
  const HostedOptions& options_;
  Channel head_;
  sigset_t signals_;
  int signal_fd_ = -1;
  pmix::TreeExchange* exchange_ = nullptr;
  std::unique_ptr<Server> server_;
  std::map<pid_t, ProcId> children_;
  bool over_ = false;
};

}  // namespace

void run_mini_node(const MiniNodeSetup& setup, const HostedOptions& options) {
  MiniNode(setup, options).serve();
}

}  // namespace rlx::test
