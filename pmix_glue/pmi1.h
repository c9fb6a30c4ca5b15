// SPDX-License-Identifier: MIT OR Apache-2.0
//
// PMI-1, the line protocol by which MPICH and its relatives bootstrap: "cmd=put kvsname=K key=A
// value=B\n" over one stream socket a rank (its number in PMI_FD), each request answered by one
// line. This is the server's side of one job, without any I/O: bytes in, lines out. Source: the
// wire protocol of MPICH's "simple" PMI client (src/pmi/simple of MPICH 4.0). Tested by
// test/pmix_glue/test_pmi1.cc
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rlx::pmix {

class Pmi1Job {
 public:
  struct Facts {
    std::string name;  // of the key-value space
    uint32_t universe_size = 0;
    std::vector<uint32_t> nodes;  // of each rank; its length is the size of the job
    std::vector<uint32_t> apps;   // of each rank
    uint32_t here = 0;            // the node whose ranks speak to us
  };
  struct Abort {
    int status = 1;
    std::string message;
  };
  // What one input caused. Lines are complete, with their newline.
  struct Output {
    struct Line {
      uint32_t rank;
      std::string text;
    };
    std::vector<Line> lines;
    bool connected = false;  // the rank has called Init
    bool finalized = false;
    std::optional<Abort> abort;
    // All ranks of this node are in the barrier, and those of others are still to come: what they
    // have put since the last one. The answer goes to barrier_done().
    std::optional<std::string> barrier;
  };

  // A request longer than this, or a job that stores more than this, is refused.
  static constexpr size_t kMaxLine = 16 * 1024;
  static constexpr size_t kMaxStored = size_t{64} << 20;

  explicit Pmi1Job(Facts facts);
  // An error is a rank that does not speak the protocol; it should be cut off.
  Status input(uint32_t rank, std::string_view bytes, Output& out);
  bool is_in_barrier(uint32_t rank) const { return ranks_.at(rank).in_barrier; }
  // What the ranks of all nodes have put, one after the other in any order; or why they never will.
  void barrier_done(const Result<std::string>& all, Output& out);

 private:
  using Fields = std::map<std::string, std::string, std::less<>>;
  Status request(uint32_t rank, std::string_view line, Output& out);
  Status command(uint32_t rank, const Fields& fields, Output& out);
  void barrier(uint32_t rank, Output& out);
  std::string put(const Fields& fields);
  bool store(std::string_view key, std::string_view value);
  std::string get(const Fields& fields) const;
  std::string get_by_index(const Fields& fields) const;
  std::string publish(const Fields& fields);
  std::string lookup(const Fields& fields) const;

  struct Rank {
    std::string partial;  // of a line
    bool in_barrier = false;
    bool in_multiline = false;
  };
  Facts facts_;
  std::vector<Rank> ranks_;
  std::map<std::string, std::string, std::less<>> stored_;
  std::map<std::string, std::string, std::less<>> services_;
  std::map<std::string, std::string, std::less<>> fresh_;  // stored here since the last barrier
  size_t n_stored_ = 0;                                    // bytes in stored_ and services_
  size_t n_local_ = 0;                                     // ranks of this node
  size_t n_in_barrier_ = 0;
};

// Where ranks are, as MPICH reads it: "(vector,(first node,nodes,ranks on each),...)".
std::string process_mapping(const std::vector<uint32_t>& nodes);

}  // namespace rlx::pmix
