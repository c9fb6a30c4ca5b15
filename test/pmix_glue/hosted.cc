// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/pmix_glue/hosted.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>

#include "base/clock.h"
#include "test/support/command.h"

namespace rlx::test {
namespace {

using pmix::ChildSetup;
using pmix::Ending;
using pmix::Job;
using pmix::ProcId;
using pmix::Server;

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

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

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text);
  return std::move(*result);
}
void must(const Status& status) {
  if (!status) throw std::runtime_error(status.error().text);
}

class MiniLauncher final : public pmix::Host {
 public:
  explicit MiniLauncher(const HostedOptions& options) : options_(options) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
    signal_fd_ = ::signalfd(-1, &signals_, SFD_CLOEXEC | SFD_NONBLOCK);
    if (options.dir.empty()) scratch_.emplace();
    const std::string dir = scratch_ ? scratch_->path() : options.dir;
    output_path_ = dir + "/output";
    server_ = must(Server::start({dir, host_name(), 0, nullptr}));
  }
  ~MiniLauncher() override {
    kill_all();
    for (const auto& [pid, rank] : children_) ::waitpid(pid, nullptr, 0);
    server_.reset();
    ::close(signal_fd_);
  }

  Outcome run(const std::vector<std::pair<std::vector<std::string>, uint32_t>>& apps) {
    Job job;
    job.name = outcome_.job = pmix::new_job_name();
    job.nodes = {host_name()};
    for (const auto& [argv, n] : apps) {
      const auto app = static_cast<uint32_t>(job.apps.size());
      job.apps.push_back({argv, "/"});
      for (uint32_t i = 0; i < n; ++i) job.ranks.push_back({0, app, options_.cpus});
    }
    job.universe_size = static_cast<uint32_t>(job.ranks.size()) + 2;
    job.oversubscribed = true;
    must(launch(job, {}));
    serve();
    for (auto& [rank, result] : outcome_.ranks) result.state = server_->state(rank);
    server_->deregister_job(job.name);
    outcome_.output = read_file(output_path_);
    return outcome_;
  }

  void connected(const ProcId&) override {}
  void finalized(const ProcId&) override {}
  void aborted(const ProcId&, int status, const std::string& message,
               const std::vector<ProcId>&) override {
    outcome_.abort_status = status;
    outcome_.abort_message = message;
    kill_all();
  }
  void spawn(pmix::SpawnRequest request) override {
    Job job;
    job.name = pmix::new_job_name();
    job.nodes = {host_name()};
    job.parent = request.parent;
    job.oversubscribed = true;
    std::vector<std::string> environment;
    for (const auto& app : request.apps) {
      if (::access(app.argv[0].c_str(), X_OK) != 0) {
        server_->spawned(request.id, fail(Code::kInvalid, "no such program"));
        return;
      }
      const auto index = static_cast<uint32_t>(job.apps.size());
      job.apps.push_back({app.argv, app.wdir});
      for (uint32_t i = 0; i < app.n_ranks; ++i) job.ranks.push_back({0, index, ""});
      environment.insert(environment.end(), app.environment.begin(), app.environment.end());
    }
    ++outcome_.n_spawned;
    const Status launched = launch(job, environment);
    server_->spawned(request.id, launched ? Result<std::string>(job.name)
                                          : Result<std::string>(tl::unexpected(launched.error())));
  }
  void logged(const ProcId&, pmix::LogChannel, const std::string& text) override {
    outcome_.logged.push_back(text);
  }

 private:
  Status launch(const Job& job, const std::vector<std::string>& extra) {
    RLX_TRY(server_->register_job(job));
    auto base = own_environment();
    base.insert(base.end(), options_.environment.begin(), options_.environment.end());
    base.insert(base.end(), extra.begin(), extra.end());
    for (uint32_t r = 0; r < job.ranks.size(); ++r) {
      const auto& argv = job.apps[job.ranks[r].app].argv;
      const auto protocol = options_.protocol ? *options_.protocol : pmix::protocol_of(argv[0]);
      RLX_TRY_ASSIGN(const ChildSetup child, server_->environment({job.name, r}, base, protocol));
      const pid_t pid = start(argv, child);
      if (child.pmi_fd >= 0) ::close(child.pmi_fd);
      children_[pid] = {job.name, r};
      server_->rank_started({job.name, r}, pid);
    }
    return {};
  }

  pid_t start(std::vector<std::string> argv, ChildSetup child) {
    std::vector<char*> args, environment;
    for (auto& arg : argv) args.push_back(arg.data());
    for (auto& entry : child.environment) environment.push_back(entry.data());
    args.push_back(nullptr);
    environment.push_back(nullptr);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    if (options_.die_with_us) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigprocmask(SIG_UNBLOCK, &signals_, nullptr);
    const int out = ::open(output_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(out, 1);
    ::dup2(out, 2);
    if (child.pmi_fd >= 0) ::fcntl(child.pmi_fd, F_SETFD, 0);
    ::execvpe(args[0], args.data(), environment.data());
    ::_exit(127);
  }

  void serve() {
    const Deadline deadline = Deadline::after_ms(options_.timeout_s * 1000LL);
    bool stopped = false;
    while (!children_.empty()) {
      pollfd fds[2] = {{server_->fd(), POLLIN, 0}, {signal_fd_, POLLIN, 0}};
      // What ranks write makes no event here, so who looks at it looks often.
      const int64_t left_ms = deadline.left_ns() / 1000000 + 1;
      ::poll(fds, 2, static_cast<int>(options_.until ? std::min<int64_t>(left_ms, 20) : left_ms));
      server_->dispatch(*this);
      reap();
      if (deadline.passed()) return;
      if (!stopped && options_.until && options_.until(read_file(output_path_))) {
        stopped = true;
        kill_all();
      }
    }
    outcome_.finished = true;
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
      outcome_.ranks[rank] = {shell_status(status), server_->state(rank)};
      const auto state = server_->state(rank);
      server_->rank_ended(rank, WIFSIGNALED(status)
                                    ? Ending{Ending::Kind::kSignaled, WTERMSIG(status)}
                                    : Ending{Ending::Kind::kExited, WEXITSTATUS(status)});
      const bool failed = status != 0 || (state.connected && !state.finalized);
      if (failed && options_.kill_on_failure) kill_all();
    }
  }

  void kill_all() {
    for (const auto& [pid, rank] : children_) ::kill(pid, SIGKILL);
  }

  HostedOptions options_;
  std::optional<TempDir> scratch_;
  sigset_t signals_;
  int signal_fd_ = -1;
  std::string output_path_;
  std::unique_ptr<Server> server_;
  std::map<pid_t, ProcId> children_;
  Outcome outcome_;
};

}  // namespace

int Outcome::status(uint32_t rank) const {
  const auto it = ranks.find({job, rank});
  return it == ranks.end() ? -1 : it->second.status;
}

bool Outcome::all_good() const {
  if (!finished || ranks.empty()) return false;
  for (const auto& [rank, result] : ranks)
    if (result.status != 0) return false;
  return true;
}

std::string Outcome::text() const {
  std::string out = finished ? "" : "time limit passed\n";
  for (const auto& [rank, result] : ranks)
    out += fmt::format("{} rank {}: status {}{}{}\n", rank.job.substr(0, 10), rank.rank,
                       result.status, result.state.connected ? " connected" : "",
                       result.state.finalized ? " finalized" : "");
  return out + output;
}

namespace {

nlohmann::json to_json(const Outcome& outcome) {
  nlohmann::json json = {{"finished", outcome.finished},     {"job", outcome.job},
                         {"output", outcome.output},         {"logged", outcome.logged},
                         {"message", outcome.abort_message}, {"spawned", outcome.n_spawned}};
  if (outcome.abort_status) json["abort"] = *outcome.abort_status;
  for (const auto& [rank, result] : outcome.ranks)
    json["ranks"].push_back(
        {rank.job, rank.rank, result.status, result.state.connected, result.state.finalized});
  return json;
}

Outcome from_json(const nlohmann::json& json) {
  Outcome outcome;
  outcome.finished = json.at("finished");
  outcome.job = json.at("job");
  outcome.output = json.at("output");
  outcome.logged = json.at("logged");
  outcome.abort_message = json.at("message");
  outcome.n_spawned = json.at("spawned");
  if (json.contains("abort")) outcome.abort_status = json.at("abort").get<int>();
  for (const auto& r : json.value("ranks", nlohmann::json::array()))
    outcome.ranks[{r[0], r[1]}] = {r[2], {r[3], r[4]}};
  return outcome;
}

std::string read_all(int fd) {
  std::string all;
  char buffer[65536];
  for (ssize_t n; (n = ::read(fd, buffer, sizeof buffer)) > 0;) all.append(buffer, n);
  return all;
}

}  // namespace

// libpmix starts one server a process, so every job has a process of its own.
Outcome host_job(const std::vector<std::pair<std::vector<std::string>, uint32_t>>& apps,
                 const HostedOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    Outcome outcome;
    try {
      outcome = MiniLauncher(options).run(apps);
    } catch (const std::exception& error) {
      outcome.output = std::string("the host failed: ") + error.what();
    }
    const std::string json =
        to_json(outcome).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    [[maybe_unused]] const ssize_t n = ::write(ends[1], json.data(), json.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string answer = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  const auto json = nlohmann::json::parse(answer, nullptr, false);
  if (!json.is_discarded()) return from_json(json);
  Outcome outcome;
  outcome.output =
      fmt::format("the host ended without a word, status {}: {}", shell_status(status), answer);
  return outcome;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

}  // namespace rlx::test
