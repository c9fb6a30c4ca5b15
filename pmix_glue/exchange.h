// SPDX-License-Identifier: MIT OR Apache-2.0
// What the servers of a job's nodes do together. With one node it is OneHost; a tree of daemons
// carries the same requests over its links and keeps the Store at its root.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pmix_glue/proc_id.h"
#include "pmix_glue/store.h"

namespace rlx::pmix {

// All functions and all replies run on the thread that calls Server::dispatch. A reply comes
// exactly once, at once or later; the server gives up on late ones by itself.
class Exchange {
 public:
  using BytesReply = std::function<void(Result<std::string>)>;
  using StatusReply = std::function<void(Status)>;

  virtual ~Exchange() = default;
  // This node's part of a fence (or connect, disconnect: empty data) over `procs`, sorted. The
  // reply is what all nodes gave, joined in any order. The next fence over the same procs may
  // already begin on another node before this one is answered here.
  virtual void fence(const std::vector<ProcId>& procs, std::string data, BytesReply reply) = 0;
  // What a rank on another node has put.
  virtual void fetch(const ProcId& owner, BytesReply reply) = 0;

  virtual void publish(Publication publication, StatusReply reply) = 0;
  // Returns a ticket for cancel(), which makes the reply be forgotten.
  virtual uint64_t lookup(LookupRequest request, Store::Reply reply) = 0;
  virtual void cancel(uint64_t ticket) = 0;
  virtual void unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                         StatusReply reply) = 0;
  // `who` (a rank, or a whole job) is gone: what it published for its life time goes too.
  virtual void gone(const ProcId& who) = 0;
};

class OneHost final : public Exchange {
 public:
  void fence(const std::vector<ProcId>& procs, std::string data, BytesReply reply) override;
  void fetch(const ProcId& owner, BytesReply reply) override;
  void publish(Publication publication, StatusReply reply) override;
  uint64_t lookup(LookupRequest request, Store::Reply reply) override;
  void cancel(uint64_t ticket) override;
  void unpublish(const ProcId& owner, const std::vector<std::string>& keys,
                 StatusReply reply) override;
  void gone(const ProcId& who) override;

 private:
  Store store_;
};

}  // namespace rlx::pmix
