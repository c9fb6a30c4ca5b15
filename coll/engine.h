// SPDX-License-Identifier: MIT OR Apache-2.0
// Runs plans: binds a plan to memory and peers, and moves it on whenever something has arrived.
// One engine a process; many tasks may be under way, of one communicator and of several.
//
// Progress: steps never poll. A sweep polls the fabrics once and then advances every task; who
// waits for anything in this process (a message, a collective) waits through Engine::until or
// Engine::wait, so everything moves whatever is waited for.
// Order: plans with messages of one communicator may overlap (their tags carry the call number);
// plans in shared memory run one after the other in call order.
// Failure: a task whose communicator has lost a rank, or whose ranks made different calls, ends
// with kPeerFailed or kMismatch, and its communicator is broken from then on: later calls fail at
// once with the same words. A mismatch is told to all ranks, see coll/trouble.h. So does a
// deadline; then a rank that a message of the call is half way to or from counts as failed, so that
// nobody uses the caller's buffers any more. After a mismatch or a death such messages may still
// read or write them until their peer is done. Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "coll/area.h"
#include "coll/links.h"
#include "coll/plan.h"
#include "coll/shown.h"
#include "fabrics/request.h"

namespace rlx {

// The ranks of a communicator, as the engine sees them. All ranks agree on everything but `rank`.
struct Group {
  int rank = 0;
  std::vector<int> world;     // rank in the communicator -> rank in the world
  std::uint32_t context = 0;  // below 1 << 16; differs between communicators that share ranks
  std::vector<Area*> areas;   // one a rank if all are on this host, else empty
  std::string name;           // in messages: "world", "world.dup.1"

  int size() const { return static_cast<int>(world.size()); }
};

class Engine;
struct Task;

// What a communicator keeps between its collectives.
struct Channel {
  Group group;
  std::uint64_t calls = 0;         // collectives started, of any kind
  std::uint64_t history = 0;       // of the fingerprints of all of them
  std::uint64_t shared_calls = 0;  // of those, plans in shared memory
  ShownStores shown;               // as chosen by all for the shared plan under way
  std::vector<Task*> waiting;      // shared plans behind the running one, first is next
  Task* running = nullptr;         // the shared plan under way
  std::vector<CallText> recent;    // ring of the last calls by number, for reports
  int n_pending = 0;               // tasks started and not done
  bool any_report = false;
  std::vector<CallText> reported;  // by rank: the newest call it says it waits in; number 0: none
  Status broken;                   // why every later collective fails
  std::vector<bool> knows;         // by rank: its verdict has come (coll/trouble.h)
  std::int64_t settle_by_ns = 0;   // no longer are the verdicts of all waited for; 0: none wanted

  explicit Channel(Group g)
      : group(std::move(g)), reported(group.world.size()), knows(group.world.size()) {}
};

// One collective to run.
struct Job {
  Channel* channel = nullptr;
  const Plan* plan = nullptr;         // lives until the task is done
  std::shared_ptr<const Plan> owned;  // instead of `plan`: may be replaced before the task is done
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t in_bytes = 0, out_bytes = 0;  // of pooled buffers, as peers may reach them
  bool pooled = false;
  std::uint64_t own_sent = 0, own_expected = 0;  // bytes of the rank's block for itself (v forms)
  CallText text;                                 // number is filled in here
  std::uint64_t fingerprint = 0;
};

class Engine final : public RequestOwner {
 public:
  explicit Engine(Links& links);
  ~Engine();

  // Starts a collective; it is done when the request says so, then release() it.
  // The request's text names operation, number and communicator if it failed.
  Request* start(const Job& job);
  // Until the request (of any kind) is done; its status. After the deadline kTimeout: a collective
  // is done then too, the text names who is missing and its channel is broken; a message is still
  // pending (Endpoint::describe).
  Status wait(Request* request, Deadline deadline);
  // Starts and waits: what a blocking collective does.
  Status run(const Job& job, Deadline deadline);
  void release(Request* request) override;

  // Channels that may get reports of mismatched calls; they outlive their tasks.
  void add(Channel* channel);
  void remove(Channel* channel);

  // One sweep; true if anything moved.
  bool progress();
  // Until ready() is true, sweeping meanwhile. kTimeout after the deadline.
  template <class Ready>
  Status until(Ready&& ready, Deadline deadline) {
    auto turn = [&]() -> Turn {
      if (ready()) return Turn::kDone;
      const bool moved = progress();
      if (ready()) return Turn::kDone;
      return moved ? Turn::kMoved : Turn::kIdle;
    };
    return links_.until([](void* state) { return (*static_cast<decltype(turn)*>(state))(); }, &turn,
                        deadline);
  }

  Links& links() { return links_; }

 private:
  struct Impl;
  Task* make_task(const Job& job);
  void begin(Task& task, const Job& job);
  void take_turn(Task& task);
  bool step(Task& task);
  void end(Task& task);
  void end(Task& task, const Error& why);
  void fail(Task& task);
  void break_channel(Channel& channel, const Error& why);
  void disagree(Channel& channel, const CallText& own, const std::string& text);
  bool settled(const Channel& channel);
  void close(Task& task);
  std::string early_clash(const Channel& channel, const CallText& call) const;
  const Error* first_death(const Channel& channel);
  std::string describe_mismatch(const Task& task);
  void look_around();
  void read_reports();

  Links& links_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rlx
