// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/pmix_glue/hosted.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <stdexcept>

#include "base/clock.h"
#include "pmix_glue/tree_root.h"
#include "test/pmix_glue/mini_channel.h"
#include "test/pmix_glue/mini_node.h"
#include "test/support/command.h"

namespace rlx::test {
namespace {

using nlohmann::json;
using pmix::ProcId;

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

int shell_status(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class MiniHead final : public pmix::Carrier {
 public:
  explicit MiniHead(const HostedOptions& options) : options_(options) {
    if (options.dir.empty()) scratch_.emplace();
    dir_ = scratch_ ? scratch_->path() : options.dir;
    const size_t n = std::max<size_t>(options.parents.size(), 1);
    for (size_t i = 0; i < n; ++i)
      names_.push_back(options.parents.empty() ? host_name() : fmt::format("n{}", i));
    auto places = pmix::places_of(options.parents);
    for (uint32_t i = 0; i < n; ++i) start_node(i, places[i]);
    if (!options.parents.empty())
      root_ = std::make_unique<pmix::TreeRoot>(places[pmix::kRoot], *this);
  }
  ~MiniHead() override {
    for (auto& node : nodes_) {
      if (node.channel->fd() >= 0) node.channel->send({{"over", true}});
      ::waitpid(node.pid, nullptr, 0);
    }
  }

  Outcome run(const std::vector<std::pair<std::vector<std::string>, uint32_t>>& apps) {
    json list = json::array();
    for (const auto& [argv, n] : apps) list.push_back({argv, "/", n});
    outcome_.job = launch(list, json::array(), {});
    serve();
    outcome_.output = read_file(dir_ + "/output");
    return outcome_;
  }

 private:
  struct Node {
    pid_t pid;
    std::unique_ptr<Channel> channel;
  };
  struct Spawning {
    uint32_t node;
    uint64_t id;
    size_t n_missing;
    bool good = true;
  };

  void start_node(uint32_t index, const pmix::TreePlace& place) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("no socket pair");
    MiniNodeSetup setup{place,
                        options_.parents.empty(),
                        names_[index],
                        fmt::format("{}/{}", dir_, index),
                        dir_ + "/output",
                        ends[1]};
    std::filesystem::create_directory(setup.dir);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (auto& other : nodes_) other.channel->close();
      ::close(ends[0]);
      try {
        run_mini_node(setup, options_);
      } catch (const std::exception& error) {
        fmt::print(stderr, "node {}: {}\n", index, error.what());
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::close(ends[1]);
    nodes_.push_back({pid, std::make_unique<Channel>(ends[0])});
  }

  // `apps`: argv, directory and number of ranks of each. Returns the name of the job.
  std::string launch(const json& apps, const json& environment, std::optional<ProcId> parent) {
    pmix::Job job;
    job.name = pmix::new_job_name();
    json ranks = json::array();
    for (uint32_t a = 0; a < apps.size(); ++a)
      for (uint32_t i = 0; i < apps[a].at(2).get<uint32_t>(); ++i) {
        const auto rank = static_cast<uint32_t>(job.ranks.size());
        const auto node = rank % static_cast<uint32_t>(nodes_.size());
        job.ranks.push_back({node, a, options_.cpus});
        ranks.push_back({node, a, parent ? "" : options_.cpus});
        running_[{job.name, rank}] = node;
      }
    json message = {{"launch", true}, {"job", job.name}, {"nodes", names_},
                    {"apps", apps},   {"ranks", ranks},  {"environment", environment}};
    if (parent) message["parent"] = {parent->job, parent->rank};
    if (root_) root_->register_job(job);
    to_all(message);
    return job.name;
  }

  void send(uint32_t to, std::string frame) override { carry(pmix::kRoot, to, frame); }
  void carry(uint32_t from, uint32_t to, const std::string& frame) {
    if (nodes_.at(to).channel->fd() >= 0)
      nodes_[to].channel->send({{"frame", as_binary(frame)}, {"from", from}});
  }
  void to_all(const json& message) {
    for (auto& node : nodes_)
      if (node.channel->fd() >= 0) node.channel->send(message);
  }

  void serve() {
    const Deadline deadline = Deadline::after_ms(options_.timeout_s * 1000LL);
    bool stopped = false;
    const bool looks = options_.until || options_.lose;
    while (!running_.empty()) {
      std::vector<pollfd> fds;
      for (auto& node : nodes_) fds.push_back({node.channel->fd(), node.channel->events(), 0});
      // What ranks write makes no event here, so who looks at it looks often.
      const int64_t left_ms = deadline.left_ns() / 1000000 + 1;
      ::poll(fds.data(), fds.size(),
             static_cast<int>(looks ? std::min<int64_t>(left_ms, 20) : left_ms));
      for (uint32_t i = 0; i < nodes_.size(); ++i) listen(i);
      if (deadline.passed()) return;
      if (!looks) continue;
      const std::string output = read_file(dir_ + "/output");
      if (const int node = options_.lose ? options_.lose(output) : -1; node >= 0)
        ::kill(nodes_.at(static_cast<size_t>(node)).pid, SIGKILL);
      if (!stopped && options_.until && options_.until(output)) {
        stopped = true;
        to_all({{"kill_all", true}});
      }
    }
    outcome_.finished = true;
  }

  void listen(uint32_t index) {
    Channel& channel = *nodes_[index].channel;
    if (channel.fd() < 0) return;
    std::vector<json> messages;
    const bool open = channel.receive(messages);
    for (const auto& message : messages) hear(index, message);
    channel.flush();
    if (!open) lost(index);
  }

  void lost(uint32_t index) {
    nodes_[index].channel->close();
    if (root_) root_->node_lost(index);
    std::erase_if(running_, [&](const auto& entry) {
      if (entry.second != index) return false;
      outcome_.ranks[entry.first] = {137, {}};
      return true;
    });
  }

  void hear(uint32_t index, const json& message) {
    if (message.contains("carry")) {
      const uint32_t to = message.at("carry");
      const std::string frame = from_binary(message.at("frame"));
      if (to != pmix::kRoot) return carry(index, to, frame);
      if (const auto status = root_->deliver(index, frame); !status)
        throw std::runtime_error(status.error().text);
    } else if (message.contains("exited")) {
      exited(message);
    } else if (message.contains("aborted")) {
      aborted(message);
    } else if (message.contains("spawn")) {
      spawn(index, message);
    } else if (message.contains("launched")) {
      launched(message);
    } else {
      outcome_.logged.push_back(message.at("logged"));
    }
  }

  void exited(const json& message) {
    const ProcId rank{message["exited"].at(0), message["exited"].at(1)};
    const pmix::RankState state{message.at("connected"), message.at("finalized")};
    outcome_.ranks[rank] = {message.at("status"), state};
    running_.erase(rank);
    const bool failed = message.at("status") != 0 || (state.connected && !state.finalized);
    if (failed && options_.kill_on_failure) to_all({{"kill_all", true}});
  }

  void aborted(const json& message) {
    outcome_.abort_status = message.at("status").get<int>();
    outcome_.abort_message = message.at("text");
    if (message.at("victims").empty())
      to_all({{"kill_all", true}});
    else
      to_all({{"kill", message.at("victims")}});
  }

  void spawn(uint32_t index, const json& message) {
    json environment = json::array();
    for (const auto& app : message.at("apps")) {
      if (::access(app.at(0).at(0).get<std::string>().c_str(), X_OK) != 0)
        return nodes_[index].channel->send({{"spawned", message.at("spawn")}, {"job", ""}});
      for (const auto& entry : app.at(3)) environment.push_back(entry);
    }
    ++outcome_.n_spawned;
    const ProcId parent{message["parent"].at(0), message["parent"].at(1)};
    const std::string job = launch(message.at("apps"), environment, parent);
    spawnings_[job] = {index, message.at("spawn"), nodes_.size()};
  }

  void launched(const json& message) {
    const std::string error = message.at("error");
    const auto spawning = spawnings_.find(message.at("launched").get<std::string>());
    if (spawning == spawnings_.end()) {
      if (!error.empty()) throw std::runtime_error(error);
      return;
    }
    spawning->second.good &= error.empty();
    if (--spawning->second.n_missing > 0) return;
    nodes_[spawning->second.node].channel->send(
        {{"spawned", spawning->second.id}, {"job", spawning->second.good ? spawning->first : ""}});
    spawnings_.erase(spawning);
  }

  const HostedOptions& options_;
  std::optional<TempDir> scratch_;
  std::string dir_;
  std::vector<std::string> names_;
  std::vector<Node> nodes_;
  std::unique_ptr<pmix::TreeRoot> root_;
  std::map<ProcId, uint32_t> running_;  // their nodes
  std::map<std::string, Spawning> spawnings_;
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

json to_json(const Outcome& outcome) {
  json all = {{"finished", outcome.finished},     {"job", outcome.job},
              {"output", outcome.output},         {"logged", outcome.logged},
              {"message", outcome.abort_message}, {"spawned", outcome.n_spawned}};
  if (outcome.abort_status) all["abort"] = *outcome.abort_status;
  for (const auto& [rank, result] : outcome.ranks)
    all["ranks"].push_back(
        {rank.job, rank.rank, result.status, result.state.connected, result.state.finalized});
  return all;
}

Outcome from_json(const json& all) {
  Outcome outcome;
  outcome.finished = all.at("finished");
  outcome.job = all.at("job");
  outcome.output = all.at("output");
  outcome.logged = all.at("logged");
  outcome.abort_message = all.at("message");
  outcome.n_spawned = all.at("spawned");
  if (all.contains("abort")) outcome.abort_status = all.at("abort").get<int>();
  for (const auto& r : all.value("ranks", json::array()))
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
      outcome = MiniHead(options).run(apps);
    } catch (const std::exception& error) {
      outcome.output = std::string("the host failed: ") + error.what();
    }
    const std::string words = to_json(outcome).dump(-1, ' ', false, json::error_handler_t::replace);
    [[maybe_unused]] const ssize_t n = ::write(ends[1], words.data(), words.size());
    ::_exit(0);
  }
  ::close(ends[1]);
  const std::string answer = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  const auto all = json::parse(answer, nullptr, false);
  if (!all.is_discarded()) return from_json(all);
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
