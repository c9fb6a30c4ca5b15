// SPDX-License-Identifier: MIT OR Apache-2.0
// What the servers of several nodes do together, over simulated links.
#include <criterion/criterion.h>

#include <optional>

#include "test/pmix_glue/sim_tree.h"

using namespace rlx;
using namespace rlx::pmix;
using namespace rlx::test;

namespace {

using Procs = std::vector<ProcId>;

constexpr uint32_t kTop = kRoot;
const std::vector<std::vector<uint32_t>> kShapes = {
    {kTop},
    {kTop, kTop},
    {kTop, 0, 1, 2},                             // a chain
    {kTop, kTop, kTop, kTop, kTop, kTop, kTop},  // a star
    {kTop, kTop, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4},  // two binary trees
};

// What a node gives: distinct letters in a length of its own.
std::string part_of(uint32_t node, uint32_t round, size_t n) {
  return n == 0 ? "" : std::string(n + node, static_cast<char>('a' + node)) + std::to_string(round);
}

// One fence after the other over `procs`, as a server would: the next begins when the last is over.
struct Fences {
  SimTree& tree;
  Procs procs;
  std::vector<uint32_t> nodes;
  uint32_t n_rounds;
  size_t n_bytes;
  std::map<uint32_t, std::vector<std::string>> got = {};

  void enter(uint32_t node, uint32_t round) {
    tree.nodes[node]->exchange->meet(Meeting::kFence, procs, part_of(node, round, n_bytes),
                                     [this, node, round](const Result<std::string>& all) {
                                       got[node].push_back(all ? *all : "!" + all.error().text);
                                       if (round + 1 < n_rounds) enter(node, round + 1);
                                     });
  }
  void begin() {
    for (const uint32_t node : nodes) enter(node, 0);
  }
  void expect_all(const char* what) {
    for (uint32_t round = 0; round < n_rounds; ++round) {
      size_t n_all = 0;
      for (const uint32_t node : nodes) n_all += part_of(node, round, n_bytes).size();
      for (const uint32_t node : nodes) {
        cr_assert_eq(got[node].size(), n_rounds, "%s: node %u", what, node);
        const std::string& all = got[node][round];
        cr_expect_eq(all.size(), n_all, "%s: node %u round %u", what, node, round);
        for (const uint32_t of : nodes)
          cr_expect(all.find(part_of(of, round, n_bytes)) != std::string::npos,
                    "%s: node %u round %u has no whole part of %u", what, node, round, of);
      }
    }
  }
};

std::vector<uint32_t> all_nodes(const SimTree& tree) {
  std::vector<uint32_t> nodes;
  for (uint32_t i = 0; i < tree.nodes.size(); ++i) nodes.push_back(i);
  return nodes;
}

using Outcome = std::optional<Result<std::string>>;
Exchange::BytesReply into(Outcome& outcome) {
  return [&outcome](Result<std::string> result) {
    cr_assert(!outcome, "answered twice");
    outcome = std::move(result);
  };
}
bool failed(const Outcome& outcome) {
  return outcome && !*outcome && outcome->error().code == Code::kPeerFailed;
}

}  // namespace

Test(tree, a_fence_gives_every_node_all_parts_in_any_order_of_arrival, .timeout = 60) {
  for (const auto& shape : kShapes)
    for (const size_t n : {size_t{0}, size_t{10}, 2 * Meetings::kPiece + 5})
      for (uint32_t seed = 0; seed < (n > 10 ? 1 : 6); ++seed) {
        SimTree tree(shape, seed);
        const auto n_nodes = static_cast<uint32_t>(shape.size());
        tree.add_job("j", 2 * n_nodes);
        Fences world{tree, {{"j", kAllRanks}}, all_nodes(tree), 3, n};
        world.begin();
        // At the same time, over some of the ranks: the second half's nodes.
        Fences half{tree, {}, {}, 4, n};
        for (uint32_t r = n_nodes / 2; r < n_nodes; ++r) {
          half.procs.push_back({"j", r});
          half.nodes.push_back(r);
        }
        half.begin();
        tree.run();
        world.expect_all("all");
        half.expect_all("half");
        cr_expect(tree.problems.empty(), "%s", tree.problems.front().c_str());
      }
}

Test(tree, sends_no_byte_twice_over_a_link_and_little_data_in_one_frame) {
  for (const size_t n : {size_t{100}, 2 * Meetings::kPiece}) {
    SimTree tree(kShapes.back(), 1);
    const auto n_nodes = static_cast<uint32_t>(tree.nodes.size());
    tree.add_job("j", n_nodes);
    Fences fences{tree, {{"j", kAllRanks}}, all_nodes(tree), 1, n};
    fences.begin();
    tree.run();
    fences.expect_all("all");
    for (const auto& [link, bytes] : tree.n_bytes)
      cr_expect_leq(bytes, (n + 300) * n_nodes, "%u to %u", link.first, link.second);
    if (n < Meetings::kPiece)
      for (const auto& [link, frames] : tree.n_frames) cr_expect_eq(frames, 1u);
  }
}

Test(tree, a_meeting_inside_a_subtree_does_not_go_to_the_root) {
  SimTree tree(kShapes[2], 1);
  tree.add_job("j", 4);
  Fences fences{tree, {{"j", 2}, {"j", 3}}, {2, 3}, 2, 10};
  fences.begin();
  tree.run();
  fences.expect_all("pair");
  cr_expect_eq(tree.n_frames.size(), 2u);
}

// How a rank or its node ends, and whether the fence had begun.
Test(tree, an_end_of_a_participant_ends_the_fence_on_every_node_with_an_error, .timeout = 60) {
  const Procs procs{{"j", kAllRanks}};
  enum How { kKilled, kExitedWell, kNodeGone, kCannot };
  for (const auto& shape : kShapes)
    for (const How how : {kKilled, kExitedWell, kNodeGone, kCannot})
      for (const bool before : {false, true})
        for (uint32_t seed = 0; seed < 6; ++seed) {
          SimTree tree(shape, seed);
          const auto n = static_cast<uint32_t>(shape.size());
          if (n == 1) continue;
          tree.add_job("j", n);
          const uint32_t victim = n - 1;  // a leaf
          std::vector<Outcome> outcomes(n);
          const auto end = [&] {
            auto& exchange = *tree.nodes[victim]->exchange;
            if (how == kKilled) exchange.ended({"j", victim}, {Ending::Kind::kSignaled, 9});
            if (how == kExitedWell) exchange.ended({"j", victim}, {Ending::Kind::kExited, 0});
            if (how == kNodeGone) tree.lose(victim);
            if (how == kCannot)
              exchange.meet(Meeting::kFence, procs, fail(Code::kPeerFailed, "no"),
                            into(outcomes[victim]));
          };
          if (before) end();
          if (before && seed % 2 == 0) tree.run();
          for (uint32_t node = 0; node < n; ++node)
            if (node != victim)
              tree.nodes[node]->exchange->meet(Meeting::kFence, procs, "x", into(outcomes[node]));
          if (!before) tree.run(seed);
          if (!before) end();
          tree.run();
          for (uint32_t node = 0; node < n; ++node)
            cr_expect(node == victim || failed(outcomes[node]),
                      "%u nodes, how %d, before %d, seed %u: node %u", n, how, before, seed, node);
          cr_expect(tree.problems.empty(), "%s",
                    tree.problems.empty() ? "" : tree.problems.front().c_str());
        }
}

Test(tree, a_failed_meeting_does_not_disturb_the_next_of_others) {
  SimTree tree(kShapes.back(), 7);
  tree.add_job("j", 12);
  std::vector<Outcome> first(12), second(12);
  // Node 3 cannot, before some have entered: they learn it when they do.
  for (const uint32_t node : {3u, 5u})
    tree.nodes[node]->exchange->meet(
        Meeting::kFence, {{"j", kAllRanks}},
        node == 3 ? Result<std::string>(fail(Code::kPeerFailed, "no")) : "x", into(first[node]));
  tree.run();
  for (uint32_t node = 0; node < 12; ++node)
    if (node != 3 && node != 5)
      tree.nodes[node]->exchange->meet(Meeting::kFence, {{"j", kAllRanks}}, "x", into(first[node]));
  for (uint32_t node = 0; node < 12; ++node)
    tree.nodes[node]->exchange->meet(Meeting::kFence, {{"j", kAllRanks}}, "y", into(second[node]));
  tree.run();
  for (uint32_t node = 0; node < 12; ++node) {
    cr_expect(failed(first[node]), "%u", node);
    cr_expect(second[node] && *second[node] && (*second[node])->size() == 12, "%u", node);
  }
}

Test(tree, reads_what_ranks_of_other_nodes_put_and_gives_up_when_they_die) {
  SimTree tree(kShapes[4], 3);
  tree.add_job("j", 12);
  Outcome good, unknown, in_vain, lost;
  auto& asker = *tree.nodes[10]->exchange;
  asker.fetch({"j", 3}, into(good));
  asker.fetch({"k", 3}, into(unknown));
  tree.run();
  cr_expect(good && **good == "blob of 3");
  cr_expect(unknown && !*unknown && unknown->error().code == Code::kInvalid);
  asker.fetch({"j", 5}, into(in_vain));
  tree.nodes[5]->exchange->ended({"j", 5}, {Ending::Kind::kSignaled, 9});
  tree.lose(11);
  asker.fetch({"j", 11}, into(lost));
  tree.run();
  cr_expect(in_vain.has_value());  // the blob, or that the rank is gone, whichever came first
  cr_expect(failed(lost));
  Outcome later;
  asker.fetch({"j", 11}, into(later));
  size_t n_rows = 99;
  asker.processes("j", [&](const auto& rows) { n_rows = rows.size(); });
  tree.run();
  cr_expect(failed(later));
  cr_expect_eq(n_rows, 0u, "nobody waits for the lost node's");
  for (const auto& node : tree.nodes) {
    const bool on_it = node == tree.nodes[5], is_lost = node == tree.nodes[11];
    if (is_lost) continue;
    cr_expect_eq(node->endings.size(), on_it ? 1u : 2u, "ranks 5 and 11");
  }
}

Test(tree, tells_events_to_every_other_node_and_tables_to_who_asks) {
  SimTree tree(kShapes[4], 3);
  tree.add_job("j", 24);
  tree.nodes[7]->exchange->tell("news");
  for (uint32_t i = 0; i < 12; ++i) tree.nodes[i]->table = {{i, 100 + i, 0, 3}, {12 + i, 0, 0, 3}};
  std::vector<Process> rows;
  tree.nodes[4]->exchange->processes("j", [&](std::vector<Process> table) { rows = table; });
  tree.run();
  for (uint32_t i = 0; i < 12; ++i) cr_expect_eq(tree.nodes[i]->events.size(), i == 7 ? 0u : 1u);
  cr_expect_eq(rows.size(), 22u);
  bool asked = false;
  tree.nodes[4]->exchange->processes("none", [&](const auto&) { asked = true; });
  cr_expect(asked);
}

Test(tree, keeps_names_at_the_root) {
  SimTree tree(kShapes[4], 3);
  tree.add_job("j", 12);
  const Publication item{
      {"j", 3}, "k", "v", Publication::Lifetime::kRank, Publication::Scope::kSession};
  size_t n_found = 99, n_cancelled = 0;
  Status published, again;
  tree.nodes[9]->exchange->lookup({{"j", 9}, {"k"}, 1},
                                  [&](const auto& found) { n_found = found.size(); });
  const uint64_t ticket = tree.nodes[8]->exchange->lookup({{"j", 8}, {"k", "x"}, 2},
                                                          [&](const auto&) { ++n_cancelled; });
  tree.run();
  cr_expect_eq(n_found, 99u, "parked");
  tree.nodes[8]->exchange->cancel(ticket);
  tree.nodes[3]->exchange->publish(item, [&](const Status& s) { published = s; });
  tree.run();
  tree.nodes[3]->exchange->publish(item, [&](const Status& s) { again = s; });
  tree.run();
  cr_expect(published.has_value());
  cr_expect(!again);
  cr_expect_eq(n_found, 1u);
  cr_expect_eq(n_cancelled, 0u);
  const auto look = [&] {
    tree.nodes[0]->exchange->lookup({{"j", 0}, {"k"}, 0},
                                    [&](const auto& found) { n_found = found.size(); });
    tree.run();
    return n_found;
  };
  cr_expect_eq(look(), 1u);
  tree.nodes[3]->exchange->ended({"j", 3}, {Ending::Kind::kExited, 0});
  tree.run();
  cr_expect_eq(look(), 0u, "published for the life of the rank");
}

Test(tree, refuses_frames_that_make_no_sense) {
  SimTree tree(kShapes[3], 3);
  tree.add_job("j", 7);
  Frame frame;
  frame.kind = Frame::Kind::kPart;
  frame.procs = {{"j", kAllRanks}};
  frame.nodes = NodeSet({0, 1, 2});
  frame.id = 1;
  cr_expect(tree.root->deliver(0, encode(frame)).has_value());
  cr_expect(!tree.root->deliver(0, encode(frame)), "twice");
  cr_expect(!tree.root->deliver(5, encode(frame)), "uninvited");
  cr_expect(!tree.nodes[0]->exchange->deliver(1, encode(frame)), "no neighbour");
  frame.kind = Frame::Kind::kReply;
  cr_expect(!tree.root->deliver(0, encode(frame)));
  const std::string good = encode(frame);
  for (size_t n = 0; n < good.size(); ++n) cr_expect(!decode(good.substr(0, n)), "cut at %zu", n);
  cr_expect(!decode(good + "x"));
}
