// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls of Node and NodeEvents as frames, and frames as calls; and the other messages of the
// tree. What is decoded is within bounds and consistent in itself; whether a rank exists is for
// the receiver to know.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/network.h"
#include "launcher/frame.h"
#include "launcher/node.h"

namespace rlx::launcher {

// A node elsewhere: its calls become frames.
class NodeSender final : public Node {
 public:
  using Send = std::function<void(Frame)>;
  NodeSender(std::uint32_t to, Send send) : to_(to), send_(std::move(send)) {}
  void start(const JobSpec& job) override;
  void signal(int signal_number) override;
  void signal_ranks(const std::vector<RankId>& ranks, int signal_number) override;
  void end(double grace_s, int signal_number) override;
  void end_ranks(const std::vector<RankId>& ranks, double grace_s) override;
  void finish() override;
  void output_taken(RankId rank, Stream stream, std::size_t n_bytes) override;
  void input(RankId rank, std::string bytes) override;
  void input_ended(RankId rank) override;
  void resize(RankId rank, WindowSize size) override;
  void spawn_answer(std::uint64_t id, const Result<std::string>& job) override;
  void release() override;
  void report() override;

 private:
  template <class... Arguments>
  void send(Kind kind, const Arguments&... arguments);
  std::uint32_t to_;
  Send send_;
};

// The head, as a daemon sees it.
class EventSender final : public NodeEvents {
 public:
  using Send = std::function<void(Frame)>;
  EventSender(std::uint32_t from, Send send) : from_(from), send_(std::move(send)) {}
  void started(RankId rank, pid_t pid, const std::string& note) override;
  void joined(RankId rank) override;
  void held(RankId rank) override;
  void not_started(std::uint32_t node, std::uint32_t job, const StartProblem& problem) override;
  void output(RankId rank, Stream stream, Text text) override;
  void output_ended(RankId rank, Stream stream) override;
  void output_lost(RankId rank, const std::string& problem) override;
  void exited(RankId rank, int wait_status, const pmix::RankState& state) override;
  void aborted(RankId by, int status, const std::string& message,
               const std::vector<RankId>& victims) override;
  void control_wanted(RankId by, const pmix::Control& control,
                      const std::vector<RankId>& targets) override;
  void spawn_wanted(RankId by, pmix::SpawnRequest request) override;
  void input_taken(RankId rank, std::size_t n_bytes, bool closed) override;
  void reported(const std::vector<std::string>& lines) override;
  void quiet() override;

 private:
  template <class... Arguments>
  void send(Kind kind, const Arguments&... arguments);
  std::uint32_t from_;
  Send send_;
};

// Makes the call that a frame stands for. kInvalid, and no call, when it stands for none of these.
Status deliver(const Frame& frame, Node& node);
Status deliver(const Frame& frame, NodeEvents& head);

// One host of the tree, as an agent is told to reach it.
struct TreeHost {
  std::uint32_t node = 0;
  std::string name, user;
  int port = 0;
  int flux_rank = -1;  // for the head alone
};

// How daemons are started, the same in the whole tree.
struct TreeSettings {
  std::vector<std::string> agent;  // command that is given a host and a command line for it
  std::string program;             // rlxrun on the other hosts
  std::string library_path;        // for its libraries; "": the usual places
  std::uint32_t radix = 32;        // daemons that one process starts
  double ping_s = 5;  // at least so often something is heard on each link; 0: nobody listens for it
  bool outlives_hosts = false;  // the job goes on without those that are lost; for the head alone
};

// The first message to a daemon.
struct Hello {
  std::uint32_t node = 0;
  std::uint32_t parent = kHeadNode;
  std::string name;            // of the host, as the job calls it
  std::string known_topology;  // signature of one that the head has
  TreeSettings settings;
  std::vector<TreeHost> below;  // those it has to start
};

// Where a node is reached.
struct NodeAddress {
  IpAddress ip;
  int prefix_bits = 0;
  bool operator==(const NodeAddress&) const = default;
};
// Of this node; without those that mean something on it only.
std::vector<NodeAddress> own_addresses();

// Its answer.
struct Welcome {
  std::string facts;  // encoded NodeFacts
  int free_port = 0;
  std::vector<NodeAddress> addresses;  // most useful first
};

// nodes[0] cannot be started, or is gone; the others were reached through it.
struct Lost {
  std::vector<std::uint32_t> nodes;
  std::string cause;
};

std::string encode(const Hello& hello);
std::string encode(const Welcome& welcome);
std::string encode(const Lost& lost);
Result<Hello> decode_hello(std::string_view body);
Result<Welcome> decode_welcome(std::string_view body);
Result<Lost> decode_lost(std::string_view body);

}  // namespace rlx::launcher
