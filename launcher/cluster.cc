// SPDX-License-Identifier: MIT OR Apache-2.0
// The calls to and from nodes that run; how they come to be is in cluster_start.cc.
#include "launcher/cluster.h"

#include <algorithm>

#include "launcher/cluster_node.h"

namespace rlx::launcher {

Cluster::Cluster(Loop& loop, Helpers& helpers, ClusterEvents& head, ClusterSetup setup)
    : loop_(loop),
      head_(head),
      setup_(std::move(setup)),
      branches_(loop, helpers, *this, *setup_.environment),
      nodes_(setup_.hosts.size()) {
  for (std::uint32_t node = 0; node < nodes_.size(); ++node)
    events_.push_back(std::make_unique<FromNode>(*this, node));
}
Cluster::~Cluster() = default;

bool Cluster::owns(std::uint32_t node, RankId rank) const {
  return node_of(rank) == node && nodes_[node].state == State::kUp;
}

std::optional<std::uint32_t> Cluster::node_of(RankId rank) const {
  const auto job = node_of_.find(rank.job);
  if (job == node_of_.end() || rank.rank >= job->second.size()) return std::nullopt;
  return job->second[rank.rank];
}

void Cluster::tell(std::uint32_t node, const std::function<void(Node&)>& call) {
  if (local_ && node == setup_.local) return call(*local_);
  NodeSender sender(node, [this](const Frame& frame) { branches_.send(frame); });
  call(sender);
}

// Once down the tree, whatever the number of nodes.
void Cluster::tell_all(const std::function<void(Node&)>& call) {
  if (!branches_.empty()) tell(kAllNodes, call);
  if (local_) call(*local_);
}

// Each node once, with its own of `ranks`.
void Cluster::tell_nodes_of(const std::vector<RankId>& ranks,
                            const std::function<void(Node&, const std::vector<RankId>&)>& call) {
  std::map<std::uint32_t, std::vector<RankId>> by_node;
  for (const auto& rank : ranks)
    if (const auto node = node_of(rank)) by_node[*node].push_back(rank);
  for (const auto& entry : by_node)
    tell(entry.first, [&](Node& node) { call(node, entry.second); });
}

void Cluster::start(const JobSpec& job) {
  auto& nodes = node_of_[job.number];
  for (const auto& rank : job.ranks) nodes.push_back(rank.node);
  if (root_) root_->register_job(describe(job));
  if (!branches_.empty()) {
    JobSpec remote = job;
    remote.inherit_stdin = false;  // if somebody inherits it, he is here
    tell(kAllNodes, [&](Node& node) { node.start(remote); });
  }
  if (local_) local_->start(job);
}

void Cluster::signal(int signal_number) {
  tell_all([&](Node& node) { node.signal(signal_number); });
}

void Cluster::signal_ranks(const std::vector<RankId>& ranks, int signal_number) {
  tell_nodes_of(ranks, [&](Node& node, const std::vector<RankId>& its) {
    node.signal_ranks(its, signal_number);
  });
}

void Cluster::end(double grace_s, int signal_number) {
  ending_ = true;
  if (starting_) return abandon();
  tell_all([&](Node& node) { node.end(grace_s, signal_number); });
  leave_when_quiet();
}

void Cluster::end_ranks(const std::vector<RankId>& ranks, double grace_s) {
  tell_nodes_of(ranks,
                [&](Node& node, const std::vector<RankId>& its) { node.end_ranks(its, grace_s); });
}

void Cluster::finish() {
  ending_ = true;
  tell_all([](Node& node) { node.finish(); });
  leave_when_quiet();
}

void Cluster::output_taken(RankId rank, Stream stream, std::size_t n_bytes) {
  if (const auto node = node_of(rank))
    tell(*node, [&](Node& to) { to.output_taken(rank, stream, n_bytes); });
}

void Cluster::input(RankId rank, std::string bytes) {
  if (const auto node = node_of(rank))
    tell(*node, [&](Node& to) { to.input(rank, std::move(bytes)); });
}

void Cluster::input_ended(RankId rank) {
  if (const auto node = node_of(rank)) tell(*node, [&](Node& to) { to.input_ended(rank); });
}

void Cluster::resize(RankId rank, WindowSize size) {
  if (const auto node = node_of(rank)) tell(*node, [&](Node& to) { to.resize(rank, size); });
}

void Cluster::spawn_answer(std::uint64_t id, const Result<std::string>& job) {
  const auto asked = asked_.find(id);
  if (asked == asked_.end()) return;
  tell(asked->second.node, [&](Node& to) { to.spawn_answer(asked->second.id, job); });
  asked_.erase(asked);
}

void Cluster::release() {
  tell_all([](Node& node) { node.release(); });
}

void Cluster::report() {
  if (starting_) return report_silent();
  tell_all([](Node& node) { node.report(); });
}

void Cluster::from_below(Frame frame) {
  if (frame.from >= nodes_.size() || nodes_[frame.from].state == State::kLost) return;
  if (auto status = hear(frame); !status) lose({frame.from}, status.error().text);
}

Status Cluster::hear(const Frame& frame) {
  switch (frame.kind) {
    case Kind::kWelcome:
      return welcome(frame.from, frame);
    case Kind::kLost: {
      RLX_TRY_ASSIGN(const Lost lost, decode_lost(frame.body));
      lost_below(lost);
      return {};
    }
    case Kind::kSilent: {
      RLX_TRY_ASSIGN(const Lost suspect, decode_lost(frame.body));
      silent_below(suspect);
      return {};
    }
    case Kind::kToldToEnd:
      head_.told_to_end();
      return {};
    case Kind::kExchange:
      carry(frame);
      return {};
    default:
      return deliver(frame, *events_[frame.from]);
  }
}

void Cluster::carry(Frame frame) {
  if (frame.to != kHeadNode && frame.to != setup_.local) return branches_.send(frame);
  // Never from inside a call of the sender, which may be in this process too.
  waiting_.push_back(std::move(frame));
  if (!carry_waiting_) carry_waiting_ = loop_.after(0, [this] { carry_waiting(); });
}

void Cluster::carry_waiting() {
  carry_waiting_.reset();
  for (const auto& frame : std::exchange(waiting_, {}))
    if (auto status = exchange(frame); !status) lose({frame.from}, status.error().text);
}

Status Cluster::exchange(const Frame& frame) {
  const std::uint32_t from = frame.from == kHeadNode ? pmix::kRoot : frame.from;
  if (frame.to == kHeadNode) return root_ ? root_->deliver(from, frame.body) : Status();
  return local_exchange_ ? local_exchange_->deliver(from, frame.body) : Status();
}

void Cluster::lost_below(const Lost& lost) { lose(lost.nodes, lost.cause); }

void Cluster::silent_below(const Lost& suspect) {
  const auto node = suspect.nodes[0];
  if (node < nodes_.size() && !ending_)
    head_.note("host " + setup_.hosts[node].name + " " + suspect.cause);
}

void Cluster::turned_away(const std::string& from) {
  head_.detail("turned away " + from + ", which does not know this launch's secret");
}

void Cluster::lose(const std::vector<std::uint32_t>& nodes, const std::string& cause) {
  std::vector<std::uint32_t> gone;
  for (const auto node : nodes)
    if (node < nodes_.size() && nodes_[node].state != State::kLost) gone.push_back(node);
  if (gone.empty()) return;
  const bool mattered = nodes_[gone[0]].state != State::kQuiet;
  for (const auto node : gone) nodes_[node].state = State::kLost;
  for (const auto node : gone)
    if (root_) root_->node_lost(node);
  if (mattered && !ending_) failures_.push_back({gone, cause});
  if (starting_) return conclude_when_known();
  if (mattered) head_.lost(gone[0], {gone.begin() + 1, gone.end()}, cause);
  leave_when_quiet();
}

std::vector<std::uint32_t> Cluster::lost_nodes() const {
  std::vector<std::uint32_t> nodes;
  for (const auto& failure : failures_) nodes.push_back(failure.nodes[0]);
  return nodes;
}

void Cluster::quiet(std::uint32_t node) {
  nodes_[node].state = State::kQuiet;
  leave_when_quiet();
}

void Cluster::leave_when_quiet() {
  const bool all = std::all_of(nodes_.begin(), nodes_.end(), [](const Remote& node) {
    return node.state == State::kQuiet || node.state == State::kLost;
  });
  if (!ending_ || !all) return;
  if (!std::exchange(leaving_, true)) branches_.leave();
  if (gone_ && !std::exchange(told_quiet_, true)) head_.quiet();
}

void Cluster::branches_gone() {
  gone_ = true;
  leave_when_quiet();
}

}  // namespace rlx::launcher
