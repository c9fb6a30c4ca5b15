// SPDX-License-Identifier: MIT OR Apache-2.0
// All nodes of a job as one: the one of this host, if it takes part, and those that daemons host.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/branches.h"
#include "launcher/local_node.h"
#include "launcher/node_facts.h"
#include "pmix_glue/tree_exchange.h"
#include "pmix_glue/tree_root.h"

namespace rlx::launcher {

class ClusterEvents : public NodeEvents {
 public:
  // A node that was there is gone, and with it `others`, which were reached through it. Nothing
  // more comes from them.
  virtual void lost(std::uint32_t node, const std::vector<std::uint32_t>& others,
                    const std::string& cause) = 0;
  virtual void note(const std::string& text) = 0;
  virtual void detail(const std::string& text) = 0;  // only with -v
  // Somebody told a daemon to end, and so the job.
  virtual void told_to_end() = 0;
};

struct ClusterSetup {
  std::vector<TreeHost> hosts;         // index is the node
  std::optional<std::uint32_t> local;  // the one that is this host
  NodeFacts local_facts;
  NodeSetup node;  // of the local one
  TreeSettings tree;
  double start_timeout_s = 60;
  const Environment* environment = nullptr;
};

class Cluster final : public Node, private BranchOwner {
 public:
  // Once: what all nodes are like, or one line for each reason why some cannot be had.
  using Ready = std::function<void(tl::expected<std::vector<NodeFacts>, std::vector<std::string>>)>;

  Cluster(Loop& loop, Helpers& helpers, ClusterEvents& head, ClusterSetup setup);
  ~Cluster() override;
  void connect(Ready ready);
  // An address of this node at which all others reach it, as far as can be told, and a free port.
  std::string address_of(std::uint32_t node) const;
  int free_port_of(std::uint32_t node) const { return nodes_[node].free_port; }
  // Those that could not be had, or were lost before the end.
  std::vector<std::uint32_t> lost_nodes() const;
  // The local one, if it was ever there.
  std::unique_ptr<LocalNode> take_local() { return std::move(local_); }

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
  class FromNode;
  enum class State { kStarting, kUp, kQuiet, kLost };
  struct Remote {
    State state = State::kStarting;
    NodeFacts facts;  // given away when all are known
    std::string hostname;
    std::vector<NodeAddress> addresses;
    int free_port = 0;
  };
  // Of the root of the PMIx servers, and of the server in this process.
  class Desk final : public pmix::Carrier {
   public:
    Desk(Cluster& cluster, std::uint32_t self) : cluster_(cluster), self_(self) {}
    void send(std::uint32_t to, std::string bytes) override {
      cluster_.carry(
          {Kind::kExchange, self_, to == pmix::kRoot ? kHeadNode : to, std::move(bytes)});
    }

   private:
    Cluster& cluster_;
    std::uint32_t self_;
  };
  struct Asked {  // a spawn request, as its node numbers it
    std::uint32_t node;
    std::uint64_t id;
  };

  // BranchOwner
  void from_below(Frame frame) override;
  void lost_below(const Lost& lost) override;
  void silent_below(const Lost& suspect) override;
  void turned_away(const std::string& from) override;
  void branches_gone() override;

  void start_local(std::unique_ptr<pmix::Exchange> exchange);
  std::unique_ptr<pmix::Exchange> join_servers();
  void carry(Frame frame);
  void carry_waiting();
  Status exchange(const Frame& frame);
  Status hear(const Frame& frame);
  Status welcome(std::uint32_t node, const Frame& frame);
  bool is_named(std::uint32_t node, const std::string& name) const;
  Status check_typist(std::uint32_t node);
  void conclude();
  void conclude_when_known();
  void start_timed_out();
  void report_silent();
  std::vector<TreeHost> remote_hosts() const;
  void blame_silent(const std::vector<TreeHost>& hosts, const std::string& cause);
  std::vector<std::string> reasons() const;
  void lose(const std::vector<std::uint32_t>& nodes, const std::string& cause);
  void quiet(std::uint32_t node);
  void leave_when_quiet();
  void abandon();
  bool owns(std::uint32_t node, RankId rank) const;
  std::optional<std::uint32_t> node_of(RankId rank) const;
  void tell(std::uint32_t node, const std::function<void(Node&)>& call);
  void tell_nodes_of(const std::vector<RankId>& ranks,
                     const std::function<void(Node&, const std::vector<RankId>&)>& call);
  void tell_all(const std::function<void(Node&)>& call);

  Loop& loop_;
  ClusterEvents& head_;
  ClusterSetup setup_;
  Branches branches_;
  std::vector<Remote> nodes_;
  std::vector<std::unique_ptr<FromNode>> events_;
  // The PMIx servers: the root of all, and what the one in this process takes part by. None where
  // there is only that one.
  std::unique_ptr<Desk> root_desk_, local_desk_;
  std::unique_ptr<pmix::TreeRoot> root_;
  pmix::TreeExchange* local_exchange_ = nullptr;  // local_ owns it
  std::vector<Frame> waiting_;                    // between those in this process
  Watch carry_waiting_;
  std::unique_ptr<LocalNode> local_;
  Ready ready_;
  std::vector<Lost> failures_;                                   // before the end
  std::map<std::uint32_t, std::vector<std::uint32_t>> node_of_;  // job, rank
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t n_asked_ = 0;
  Watch start_timer_, gather_timer_;
  bool starting_ = true, ending_ = false, leaving_ = false, gone_ = false, told_quiet_ = false;
};

}  // namespace rlx::launcher
