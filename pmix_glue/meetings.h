// SPDX-License-Identifier: MIT OR Apache-2.0
// Fences, connects and disconnects at one vertex of the tree, with no I/O of its own.
//
// Shape: a vertex waits for the part of its own server and of each child below which a participant
//   is; then one last part goes up. The lowest vertex above all participants turns it round, and
//   down go the parts of the others. No vertex gets its own bytes back.
// Data: what waits for a link goes at once when it has reached kPiece, else with the last part. So
//   little data moves as one frame a link and direction (gather, broadcast), and much data streams:
//   every byte crosses every link once, while others still come up (an all-gather on a tree).
//   Pieces of several parts mix on the way, so each says whose it is; libpmix needs every part
//   whole.
// Order: links keep it, so that the last frame down comes after all data.
// Failure: who cannot take part says so at once, and the top tells all. A rank that has failed is
//   known to all vertices, which forget all meetings with it; their servers have ended them.
// Tested by test/pmix_glue/test_tree.cc
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pmix_glue/carrier.h"
#include "pmix_glue/frame.h"

namespace rlx::pmix {

class Meetings {
 public:
  static constexpr size_t kPiece = size_t{64} << 10;

  struct Links {
    std::function<void(uint32_t neighbour, const Frame&)> send;
    // A meeting waits for a rank that has ended in good order: all should know.
    std::function<void(const ProcId&)> awaited;
  };
  Meetings(TreePlace place, Links links);

  // The part of this vertex's own server. `nodes` hold ranks of `procs`.
  void enter(Meeting kind, const std::vector<ProcId>& procs, NodeSet nodes,
             Result<std::string> part, Exchange::BytesReply reply);
  Status part(uint32_t child, Frame frame);
  Status done(Frame frame);  // from the parent

  void rank_ended(const ProcId& rank);   // in good order, and below this vertex
  void rank_failed(const ProcId& rank);  // told to all, or about to be
  void job_over(const std::string& job);
  bool idle() const;

 private:
  struct Key {
    Meeting kind;
    std::vector<ProcId> procs;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Link {
    uint32_t to;           // place_.self: our own server
    bool waiting = true;   // for the last frame from there
    size_t next = 0;       // segment that was not sent there yet
    size_t n_pending = 0;  // bytes not sent there yet
  };
  struct Segment {
    uint32_t from;  // the link it came by
    uint32_t node;  // whose part it is a piece of
    std::string bytes;
  };
  struct Open {
    NodeSet nodes;
    bool is_top = false, failed = false;
    std::vector<Link> links;  // the parent's is the last one, unless this is the top
    std::vector<Segment> segments;
    Exchange::BytesReply reply;  // set when our server has entered
  };
  struct Series {
    uint64_t n_entered = 0;
    uint64_t over = 0;  // this number and all before
    std::map<uint64_t, Open> open;
    std::map<uint64_t, Result<std::string>> early;  // over before our server entered
  };
  using Ranks = std::map<std::string, std::set<uint32_t>, std::less<>>;

  Open& open(const Key& key, uint64_t number, const NodeSet& nodes);
  static Link* find(Open& open, uint32_t neighbour);
  void add(const Key& key, uint64_t number, Open& open, Segment segment);
  Status add_all(const Key& key, uint64_t number, Open& open, uint32_t from,
                 std::string_view bytes);
  static std::string joined(const Open& open);
  void flush(const Key& key, uint64_t number, const Open& open, Link& link, bool last);
  void step(const Key& key, uint64_t number, Open& open);
  void fail_one(const Key& key, uint64_t number, Open& open, const Error& error);
  void finish(const Key& key, uint64_t number, const Status& status);
  void look_for_awaited(const Key& key);
  void forget(const std::function<bool(const Key&)>& which, const Error& why, bool for_good);
  static std::vector<ProcId> covered(const Key& key, const Ranks& ranks);

  TreePlace place_;
  NodeSet below_;  // this vertex, and all below
  std::map<uint32_t, NodeSet> children_;
  Links links_;
  std::map<Key, Series> series_;
  Ranks ended_, failed_;
};

}  // namespace rlx::pmix
