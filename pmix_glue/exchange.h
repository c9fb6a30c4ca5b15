// SPDX-License-Identifier: MIT OR Apache-2.0
// What the servers of a job's nodes do together. With one node it is OneHost; a tree of daemons
// carries the same requests over its links (tree_exchange.h) and keeps the Store at its root
// (tree_root.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pmix_glue/job.h"
#include "pmix_glue/store.h"

namespace rlx::pmix {

// What ranks do together. Each kind is counted by itself: a fence and a connect over the same ranks
// may be under way at once.
enum class Meeting : uint8_t { kFence, kConnect, kDisconnect, kPmi1Barrier };

// A row of the table of a job's processes.
struct Process {
  uint32_t rank = 0;
  int64_t pid = 0;
  int32_t exit_code = 0;
  uint16_t state = 0;  // pmix_proc_state_t
};

// All functions and all replies run on the thread that calls Server::dispatch. A reply comes
// exactly once, at once or later; the server gives up on late ones by itself.
class Exchange {
 public:
  using BytesReply = std::function<void(Result<std::string>)>;
  using StatusReply = std::function<void(Status)>;
  using TableReply = std::function<void(std::vector<Process>)>;

  // The server of this node, as the others ask it.
  class Home {
   public:
    virtual ~Home() = default;
    // What a rank of this node has put; waits until it has.
    virtual void read(const ProcId& owner, BytesReply reply) = 0;
    // The ranks of `job` on this node.
    virtual std::vector<Process> processes(const std::string& job) = 0;
    // A rank of another node has ended, and who waits for it waits in vain.
    virtual void peer_ended(const ProcId& rank, const Ending& ending) = 0;
    // An event from another node, as Exchange::tell got it there.
    virtual void told(const std::string& event) = 0;
  };

  virtual ~Exchange() = default;
  virtual void set_home(Home* home) = 0;
  // Jobs are known on all nodes before a rank of theirs runs, also where none of them does.
  virtual void job_registered(const Job& job) = 0;
  virtual void job_deregistered(const std::string& job) = 0;

  // This node's part of a meeting of `procs`, sorted; an error when it cannot take part, which ends
  // the meeting for all. The reply is what all nodes gave, joined in any order. The next meeting of
  // the same procs may already begin on another node before this one is answered here.
  virtual void meet(Meeting kind, const std::vector<ProcId>& procs, Result<std::string> part,
                    BytesReply reply) = 0;
  // What a rank on another node has put.
  virtual void fetch(const ProcId& owner, BytesReply reply) = 0;
  // The ranks of `job` on other nodes, as far as these answer.
  virtual void processes(const std::string& job, TableReply reply) = 0;
  // To the servers of all other nodes.
  virtual void tell(const std::string& event) = 0;

  virtual void publish(Publication publication, StatusReply reply) = 0;
  // Returns a ticket for cancel(), which makes the reply be forgotten.
  virtual uint64_t lookup(LookupRequest request, Store::Reply reply) = 0;
  virtual void cancel(uint64_t ticket) = 0;
  virtual void unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                         StatusReply reply) = 0;
  // A rank of this node has ended: what it published for its life time goes too, and the other
  // nodes are told when it failed or is waited for.
  virtual void ended(const ProcId& rank, const Ending& ending) = 0;
};

class OneHost final : public Exchange {
 public:
  void set_home(Home*) override {}
  void job_registered(const Job&) override {}
  void job_deregistered(const std::string& job) override;
  void meet(Meeting kind, const std::vector<ProcId>& procs, Result<std::string> part,
            BytesReply reply) override;
  void fetch(const ProcId& owner, BytesReply reply) override;
  void processes(const std::string&, TableReply reply) override { reply({}); }
  void tell(const std::string&) override {}
  void publish(Publication publication, StatusReply reply) override;
  uint64_t lookup(LookupRequest request, Store::Reply reply) override;
  void cancel(uint64_t ticket) override;
  void unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                 StatusReply reply) override;
  void ended(const ProcId& rank, const Ending& ending) override;

 private:
  Store store_;
};

}  // namespace rlx::pmix
