// SPDX-License-Identifier: MIT OR Apache-2.0
// The Exchange of a node in a tree of daemons. What it needs of the launcher: frames are carried
// (carrier.h), and every job is registered on every node, also where it has no rank, and at the
// root (TreeRoot), before a rank of it starts.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pmix_glue/exchange.h"
#include "pmix_glue/meetings.h"

namespace rlx::pmix {

class TreeExchange final : public Exchange {
 public:
  // `carrier` outlives this.
  TreeExchange(const TreePlace& place, Carrier& carrier);

  // A frame from another vertex. Like all functions here, on the thread that calls
  // Server::dispatch. kInvalid: the sender does not speak the protocol.
  Status deliver(uint32_t from, std::string_view bytes);

  void set_home(Home* home) override { home_ = home; }
  void job_registered(const Job& job) override;
  void job_deregistered(const std::string& job) override;
  void meet(Meeting kind, const std::vector<ProcId>& procs, Result<std::string> part,
            BytesReply reply) override;
  void fetch(const ProcId& owner, BytesReply reply) override;
  void processes(const std::string& job, TableReply reply) override;
  void tell(const std::string& event) override;
  void publish(Publication publication, StatusReply reply) override;
  uint64_t lookup(LookupRequest request, Store::Reply reply) override;
  void cancel(uint64_t ticket) override;
  void unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                 StatusReply reply) override;
  void ended(const ProcId& rank, const Ending& ending) override;

 private:
  struct Pending {
    uint32_t node;  // that will answer
    std::optional<ProcId> owner;
    BytesReply reply;
  };

  void send(uint32_t to, const Frame& frame);
  void to_children(const Frame& frame);
  uint64_t ask(uint32_t node, Frame frame, std::optional<ProcId> owner, BytesReply reply);
  void answer(uint32_t to, uint64_t id, const Result<std::string>& result);
  Status from_below(uint32_t from, Frame frame);
  Status from_above(Frame frame);
  Status from_anywhere(uint32_t from, Frame frame);
  void peer_ended(const ProcId& rank, const Ending& ending);
  void node_lost(uint32_t node);
  void fail_pending(const std::function<bool(const Pending&)>& which, const Error& why);

  TreePlace place_;
  Carrier& carrier_;
  Home* home_ = nullptr;
  Meetings meetings_;
  std::map<std::string, std::vector<uint32_t>, std::less<>> jobs_;  // nodes of the ranks
  std::set<uint32_t> lost_;                                         // nodes
  std::map<uint64_t, Pending> pending_;
  uint64_t next_id_ = 1;
};

}  // namespace rlx::pmix
