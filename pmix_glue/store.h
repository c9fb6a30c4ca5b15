// SPDX-License-Identifier: MIT OR Apache-2.0
// The names that ranks publish and look up. No clock and no I/O: who waits, waits until it is
// answered, cancelled or gone.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "base/result.h"
#include "pmix_glue/proc_id.h"

namespace rlx::pmix {

struct Publication {
  enum class Lifetime : uint8_t { kFirstRead, kRank, kJob, kSession };
  enum class Scope : uint8_t { kRank, kJob, kSession };  // who may see it

  ProcId owner;
  std::string key;
  std::string value;  // packed
  Lifetime lifetime = Lifetime::kSession;
  Scope scope = Scope::kSession;
};

struct LookupRequest {
  ProcId by;
  std::vector<std::string> keys;
  size_t wait_for = 0;  // how many of them must be there; 0: answer at once with what is
};

class Store {
 public:
  using Reply = std::function<void(const std::vector<Publication>&)>;

  // Error: the key exists already where `publication` would be seen.
  Status publish(Publication publication);
  // Replies with what was found, perhaps nothing. Returns a ticket for cancel().
  uint64_t lookup(LookupRequest request, Reply reply);
  void cancel(uint64_t ticket);
  // Only what `owner` published itself; no keys: all of it.
  void unpublish(const ProcId& owner, const std::vector<std::string>& keys);
  // A rank, or (kAllRanks) a job: its publications end as their lifetime says, its lookups are
  // dropped.
  void gone(const ProcId& who);

 private:
  struct Waiting {
    uint64_t ticket;
    LookupRequest request;
    Reply reply;
  };
  bool answer(const LookupRequest& request, const Reply& reply);

  std::list<Publication> published_;
  std::list<Waiting> waiting_;
  uint64_t next_ticket_ = 1;
};

}  // namespace rlx::pmix
