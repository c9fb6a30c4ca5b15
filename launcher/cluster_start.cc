// SPDX-License-Identifier: MIT OR Apache-2.0
// How the nodes of a job come to be, and what is said when some do not.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/agent.h"
#include "launcher/cluster.h"
#include "launcher/cluster_node.h"
#include "launcher/hosts.h"
#include "launcher/plan.h"

namespace rlx::launcher {
namespace {

constexpr double kGather = 1;  // seconds in which more failures are waited for after the first

// The same cause on two hosts may differ by their names.
std::string without_name(std::string_view text, std::string_view name) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = at + name.size();
    if (text.substr(at).starts_with(name) && (at == 0 || !in_word(text[at - 1])) &&
        (end == text.size() || !in_word(text[end]))) {
      out.push_back('%');
      at = end;
    } else {
      out.push_back(text[at++]);
    }
  }
  return out;
}

}  // namespace

void Cluster::connect(Ready ready) {
  ready_ = std::move(ready);
  const auto remote = remote_hosts();
  if (!remote.empty()) {
    branches_.start(kHeadNode, setup_.tree, setup_.local_facts.signature, remote);
    start_timer_ = loop_.after(setup_.start_timeout_s, [this] { start_timed_out(); });
  }
  std::unique_ptr<pmix::Exchange> exchange;
  if (remote.empty())
    exchange = std::make_unique<pmix::OneHost>();
  else
    exchange = join_servers();
  if (setup_.local) start_local(std::move(exchange));
  conclude_when_known();
}

// Returns what a server in this process takes part by.
std::unique_ptr<pmix::Exchange> Cluster::join_servers() {
  pmix::TreePlace place;
  place.children = branches_.children();
  if (setup_.local) place.children.push_back({*setup_.local, {*setup_.local}});
  root_desk_ = std::make_unique<Desk>(*this, kHeadNode);
  root_ = std::make_unique<pmix::TreeRoot>(place, *root_desk_);
  if (!setup_.local) return nullptr;
  pmix::TreePlace leaf;
  leaf.self = *setup_.local;
  local_desk_ = std::make_unique<Desk>(*this, leaf.self);
  auto exchange = std::make_unique<pmix::TreeExchange>(leaf, *local_desk_);
  local_exchange_ = exchange.get();
  return exchange;
}

void Cluster::start_local(std::unique_ptr<pmix::Exchange> exchange) {
  auto& own = nodes_[*setup_.local];
  own.facts = setup_.local_facts;
  own.hostname = own.facts.hostname;
  own.free_port = free_port();
  if (root_) own.addresses = own_addresses();
  setup_.node.hostname = setup_.hosts[*setup_.local].name;
  setup_.node.index = *setup_.local;
  auto node = LocalNode::create(loop_, setup_.node, *events_[*setup_.local], std::move(exchange));
  if (node) {
    local_ = std::move(*node);
    own.state = State::kUp;
  } else {
    local_exchange_ = nullptr;
    own.state = State::kLost;
    failures_.push_back({{*setup_.local}, node.error().text});
  }
}

Status Cluster::welcome(std::uint32_t node, const Frame& frame) {
  RLX_TRY_ASSIGN(auto welcome, decode_welcome(frame.body));
  RLX_TRY_ASSIGN(nodes_[node].facts, decode_node_facts(welcome.facts));
  nodes_[node].hostname = nodes_[node].facts.hostname;
  nodes_[node].free_port = welcome.free_port;
  nodes_[node].addresses = std::move(welcome.addresses);
  if (setup_.tree.agent[0] == kManualAgent) RLX_TRY(check_typist(node));
  nodes_[node].state = State::kUp;
  conclude_when_known();
  return {};
}

bool Cluster::is_named(std::uint32_t node, const std::string& name) const {
  const auto& there = nodes_[node];
  const auto ip = parse_ip(name);
  return is_same_name(name, there.hostname) ||
         (ip && std::any_of(there.addresses.begin(), there.addresses.end(),
                            [&](const NodeAddress& one) { return one.ip == *ip; }));
}

// People may type a line on another host than the one it is for. An alias of ssh, or a name that is
// not the host's own, looks the same unless another host has the name.
Status Cluster::check_typist(std::uint32_t node) {
  const std::string& name = setup_.hosts[node].name;
  if (is_named(node, name)) return {};
  const std::string& there = nodes_[node].hostname;
  for (const auto& other : setup_.hosts)
    if (is_named(node, other.name))
      return fail(Code::kInvalid,
                  fmt::format("its line was typed on {}, which is another host of the job; type "
                              "each line on its own host",
                              there));
  head_.note(fmt::format("the line for {} was typed on a host that calls itself {}", name, there));
  return {};
}

void Cluster::conclude_when_known() {
  const bool all = std::none_of(nodes_.begin(), nodes_.end(),
                                [](const Remote& node) { return node.state == State::kStarting; });
  if (all) return conclude();
  if (!failures_.empty() && !gather_timer_)
    gather_timer_ = loop_.after(kGather, [this] { conclude(); });
}

void Cluster::start_timed_out() {
  blame_silent(remote_hosts(),
               fmt::format("no answer within {:g} s (--start-timeout)", setup_.start_timeout_s));
  conclude();
}

void Cluster::report_silent() {
  blame_silent(remote_hosts(), "no answer yet");
  head_.reported(reasons());
}

std::vector<TreeHost> Cluster::remote_hosts() const {
  std::vector<TreeHost> remote;
  for (const auto& host : setup_.hosts)
    if (host.node != setup_.local) remote.push_back(host);
  return remote;
}

// Where a daemon is silent, those that it would have started are no fault of their hosts.
void Cluster::blame_silent(const std::vector<TreeHost>& hosts, const std::string& cause) {
  const auto is_silent = [&](const TreeHost& host) {
    return nodes_[host.node].state == State::kStarting;
  };
  for (const auto& part : parts_of(hosts, setup_.tree)) {
    const std::vector<TreeHost> below(part.begin() + 1, part.end());
    if (!is_silent(part[0])) {
      blame_silent(below, cause);
      continue;
    }
    Lost& lost = failures_.emplace_back(Lost{{part[0].node}, cause});
    for (const auto& host : below)
      if (is_silent(host)) lost.nodes.push_back(host.node);
  }
}

void Cluster::conclude() {
  start_timer_.reset();
  gather_timer_.reset();
  const Ready ready = std::exchange(ready_, nullptr);
  if (!ready) return;
  if (!failures_.empty()) return ready(tl::unexpected(reasons()));
  starting_ = false;
  std::vector<NodeFacts> facts;
  for (auto& node : nodes_) facts.push_back(std::move(node.facts));
  ready(std::move(facts));
}

std::vector<std::string> Cluster::reasons() const {
  struct Reason {
    std::string same, cause;
    std::vector<std::string> hosts, beyond;
  };
  std::vector<Reason> found;
  auto failures = failures_;
  std::sort(failures.begin(), failures.end(),
            [](const Lost& a, const Lost& b) { return a.nodes[0] < b.nodes[0]; });
  for (const auto& failure : failures) {
    const std::string& name = setup_.hosts[failure.nodes[0]].name;
    const std::string same = without_name(failure.cause, name);
    auto reason = std::find_if(found.begin(), found.end(),
                               [&](const Reason& other) { return other.same == same; });
    if (reason == found.end()) reason = found.insert(found.end(), {same, failure.cause, {}, {}});
    reason->hosts.push_back(name);
    for (std::size_t i = 1; i < failure.nodes.size(); ++i)
      reason->beyond.push_back(setup_.hosts[failure.nodes[i]].name);
  }
  std::vector<std::string> lines;
  for (const auto& reason : found) {
    std::string hosts = some_of(reason.hosts);
    if (!reason.beyond.empty()) hosts += fmt::format(" (and so not on {})", some_of(reason.beyond));
    lines.push_back(fmt::format("cannot start on {}: {}", hosts, reason.cause));
  }
  return lines;
}

// Nothing has been started yet.
void Cluster::abandon() {
  ready_ = nullptr;
  start_timer_.reset();
  gather_timer_.reset();
  starting_ = false;
  leaving_ = true;
  for (std::uint32_t node = 0; node < nodes_.size(); ++node)
    if (node != setup_.local) nodes_[node].state = State::kLost;
  branches_.abandon();
  if (local_) local_->end(0, SIGTERM);
  leave_when_quiet();
}

// One in a network that as many of the others as possible are in too. An address that another node
// has as well (every docker0 is 172.17.0.1) leads nowhere.
std::string Cluster::address_of(std::uint32_t node) const {
  std::string best = setup_.hosts[node].name;
  std::size_t most = 0;
  for (const auto& address : nodes_[node].addresses) {
    std::size_t n_reach = 1;
    bool unique = true;
    for (std::uint32_t other = 0; other < nodes_.size(); ++other) {
      const auto& theirs = nodes_[other].addresses;
      if (theirs == nodes_[node].addresses && nodes_[other].hostname == nodes_[node].hostname)
        continue;  // one machine
      unique &= std::none_of(theirs.begin(), theirs.end(),
                             [&](const NodeAddress& one) { return one.ip == address.ip; });
      n_reach += std::any_of(theirs.begin(), theirs.end(), [&](const NodeAddress& one) {
        return same_network(one.ip, address.ip, address.prefix_bits);
      });
    }
    if (unique && n_reach > most) {
      most = n_reach;
      best = to_string(address.ip);
    }
  }
  return best;
}

std::vector<NodeAddress> own_addresses() {
  std::vector<NodeAddress> addresses;
  auto interfaces = list_interfaces();
  if (!interfaces) return addresses;
  sort_by_use(*interfaces);
  for (const auto& interface : *interfaces)
    if (interface.kind != Interface::Kind::loopback)
      addresses.push_back({interface.ip, interface.prefix_bits});
  return addresses;
}

}  // namespace rlx::launcher
