// SPDX-License-Identifier: MIT OR Apache-2.0
// A tree of exchanges in one thread: links that deliver in an order of our choice, and servers that
// note what they are asked. No libpmix, no processes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pmix_glue/tree_exchange.h"
#include "pmix_glue/tree_root.h"

namespace rlx::test {

class SimTree {
 public:
  // `parents[i]` is the parent of node i: kRoot, or a node before it.
  SimTree(const std::vector<uint32_t>& parents, uint32_t seed) : random_(seed) {
    using pmix::kRoot;
    auto places = pmix::places_of(parents);
    root_link_ = std::make_unique<Link>(*this, kRoot);
    root = std::make_unique<pmix::TreeRoot>(places[kRoot], *root_link_);
    for (uint32_t i = 0; i < parents.size(); ++i) {
      nodes.push_back(std::make_unique<Node>(*this, i));
      nodes[i]->exchange = std::make_unique<pmix::TreeExchange>(places[i], nodes[i]->link);
      nodes[i]->exchange->set_home(nodes[i].get());
    }
  }

  // Ranks in turn on the nodes, or as `places` say.
  void add_job(const std::string& name, uint32_t n_ranks, std::vector<uint32_t> places = {}) {
    pmix::Job job;
    job.name = name;
    for (uint32_t r = 0; r < n_ranks; ++r)
      job.ranks.push_back(
          {places.empty() ? r % static_cast<uint32_t>(nodes.size()) : places[r], 0, ""});
    root->register_job(job);
    for (auto& node : nodes) node->exchange->job_registered(job);
  }

  struct Node;
  // Delivers frames, each time from a link chosen by chance, until none is left or `n` are done.
  void run(size_t n = SIZE_MAX) {
    for (; n > 0; --n) {
      std::vector<std::pair<uint32_t, uint32_t>> busy;
      for (const auto& [link, frames] : queues_)
        if (!frames.empty()) busy.push_back(link);
      if (busy.empty()) return;
      const auto link = busy[random_() % busy.size()];
      const std::string frame = std::move(queues_[link].front());
      queues_[link].pop_front();
      const auto [from, to] = link;
      if (lost.contains(from) || lost.contains(to)) continue;
      const Status status = to == pmix::kRoot ? root->deliver(from, frame)
                                              : nodes[to]->exchange->deliver(from, frame);
      if (!status) problems.push_back(status.error().text);
    }
  }
  void lose(uint32_t node) {
    lost.insert(node);
    root->node_lost(node);
  }

  class Link final : public pmix::Carrier {
   public:
    Link(SimTree& tree, uint32_t from) : tree_(tree), from_(from) {}
    void send(uint32_t to, std::string frame) override {
      tree_.n_bytes[{from_, to}] += frame.size();
      ++tree_.n_frames[{from_, to}];
      tree_.queues_[{from_, to}].push_back(std::move(frame));
    }

   private:
    SimTree& tree_;
    uint32_t from_;
  };

  struct Node final : pmix::Exchange::Home {
    Node(SimTree& tree, uint32_t self) : link(tree, self) {}
    void read(const pmix::ProcId& owner, pmix::Exchange::BytesReply reply) override {
      reply("blob of " + std::to_string(owner.rank));
    }
    std::vector<pmix::Process> processes(const std::string&) override { return table; }
    void peer_ended(const pmix::ProcId& rank, const pmix::Ending& ending) override {
      endings.emplace_back(rank, ending.kind);
    }
    void told(const std::string& event) override { events.push_back(event); }

    Link link;
    std::unique_ptr<pmix::TreeExchange> exchange;
    std::vector<pmix::Process> table;
    std::vector<std::pair<pmix::ProcId, pmix::Ending::Kind>> endings;
    std::vector<std::string> events;
  };

  std::unique_ptr<pmix::TreeRoot> root;
  std::vector<std::unique_ptr<Node>> nodes;
  std::set<uint32_t> lost;
  std::vector<std::string> problems;
  std::map<std::pair<uint32_t, uint32_t>, size_t> n_bytes, n_frames;  // by link

 private:
  std::unique_ptr<Link> root_link_;
  std::map<std::pair<uint32_t, uint32_t>, std::deque<std::string>> queues_;
  std::mt19937 random_;
};

}  // namespace rlx::test
