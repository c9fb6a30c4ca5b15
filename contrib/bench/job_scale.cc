// SPDX-License-Identifier: MIT OR Apache-2.0
// What a large job costs each daemon before its first rank starts, on one core: the description of
// the job as a message, reading it, and telling the PMIx server of all ranks; time and memory.
// doc/scaling.md builds on these figures.
//
//   job_scale [RANKS_PER_NODE [NODES...]]        (default: 64 ranks on 64, 256, 1024 and 4096
//   nodes)
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "launcher/node_codec.h"
#include "pmix_glue/server.h"
#include "test/support/command.h"

using namespace rlx;
using namespace rlx::launcher;

namespace {

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  long all = 0, resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double ms_since(std::int64_t begin) { return static_cast<double>(now_ns() - begin) * 1e-6; }

JobSpec make_job(std::uint32_t n_nodes, std::uint32_t per_node) {
  JobSpec job;
  job.name = pmix::new_job_name();
  job.id = "0123456789abcdef";
  for (std::uint32_t n = 0; n < n_nodes; ++n) job.nodes.push_back(fmt::format("node{:05}", n));
  AppSpec app;
  app.argv = {"./train", "--data", "text"};
  for (int i = 0; i < 100; ++i) app.environment.push_back(fmt::format("VARIABLE_{}={:040}", i, i));
  app.n_ranks = n_nodes * per_node;
  job.apps.push_back(app);
  for (std::uint32_t r = 0; r < app.n_ranks; ++r) {
    RankSpec rank;
    rank.node = r / per_node;
    rank.local_rank = r % per_node;
    rank.cpus = fmt::format("{}", rank.local_rank);
    rank.threads = 1;
    job.ranks.push_back(rank);
  }
  job.universe_size = app.n_ranks;
  job.master_address = "10.0.0.1";
  return job;
}

// A daemon's side of the call, which takes what was read.
class Taker final : public Node {
 public:
  void start(const JobSpec& job) override { read = job; }
  void signal(int) override {}
  void signal_ranks(const std::vector<RankId>&, int) override {}
  void end(double, int) override {}
  void end_ranks(const std::vector<RankId>&, double) override {}
  void finish() override {}
  void output_taken(RankId, Stream, std::size_t) override {}
  void input(RankId, std::string) override {}
  void input_ended(RankId) override {}
  void resize(RankId, WindowSize) override {}
  void release() override {}
  void spawn_answer(std::uint64_t, const Result<std::string>&) override {}
  void report() override {}
  JobSpec read;
};

void must(bool fine, const char* what) {
  if (fine) return;
  fmt::print(stderr, "job_scale: {} failed\n", what);
  exit(1);
}

pmix::Job describe(const JobSpec& spec) {
  pmix::Job job;
  job.name = spec.name;
  job.nodes = spec.nodes;
  for (const auto& app : spec.apps) job.apps.push_back({app.argv, "/home"});
  for (const auto& rank : spec.ranks) job.ranks.push_back({rank.node, rank.app, rank.cpus});
  job.universe_size = spec.universe_size;
  return job;
}

// In a process of its own: a process starts one PMIx server in its life.
void measure(std::uint32_t n_nodes, std::uint32_t per_node) {
  const test::TempDir directory;
  pmix::ServerOptions options;
  options.tmpdir = directory.path();
  options.hostname = "node00000";
  const JobSpec job = make_job(n_nodes, per_node);
  Frame start;
  std::int64_t begin = now_ns();
  NodeSender(kAllNodes, [&](Frame frame) { start = std::move(frame); }).start(job);
  const double write_ms = ms_since(begin);
  Taker taker;
  begin = now_ns();
  must(deliver(start, taker).has_value(), "reading the job");
  const double read_ms = ms_since(begin);
  auto server = pmix::Server::start(options);
  must(server.has_value(), "starting the PMIx server");
  const pmix::Job described = describe(job);
  const double before = resident_mib();
  begin = now_ns();
  must((*server)->register_job(described).has_value(), "registering the job");
  const double register_ms = ms_since(begin), grown = resident_mib() - before;
  fmt::print("{:>6} {:>8} {:>12.2f} {:>9.1f} {:>9.1f} {:>12.1f} {:>10.1f}\n", n_nodes,
             job.ranks.size(), static_cast<double>(start.body.size()) / (1 << 20), write_ms,
             read_ms, register_ms, grown);
  fflush(stdout);
  (*server)->deregister_job(described.name);
}

}  // namespace

int main(int argc, char** argv) {
  const auto per_node = static_cast<std::uint32_t>(argc > 1 ? atoi(argv[1]) : 64);
  std::vector<std::uint32_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(static_cast<std::uint32_t>(atoi(argv[i])));
  if (sizes.empty()) sizes = {64, 256, 1024, 4096};
  fmt::print("{:>6} {:>8} {:>12} {:>9} {:>9} {:>12} {:>10}\n", "nodes", "ranks", "message MiB",
             "write ms", "read ms", "register ms", "MiB grown");
  fflush(stdout);
  for (const auto n : sizes) {
    const pid_t child = fork();
    if (child == 0) {
      measure(n, per_node);
      exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  return 0;
}
