// SPDX-License-Identifier: MIT OR Apache-2.0
// A plan is what one rank does in a collective, as data: steps on byte ranges of named spaces. An
// algorithm makes it from a Shape alone; the engine binds it to memory and peers and runs it.
//
// Two forms. A chain runs its steps in order, one at a time; steps that wait hold up the rest
// (shared memory). A graph runs each step as soon as the steps it comes after are done (messages:
// sends and receives overlap).
//
// In shared memory every plan starts with `arrive` and runs through `await_arrivals`, so every
// rank sees the line of every other in every call. That one rule carries the check that all made
// the same call, and makes reuse of memory safe: see coll/area.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "kernels/copy.h"

namespace rlx {

enum class Space : std::uint8_t {
  in,        // this rank's input
  out,       // this rank's output
  tmp,       // scratch, Plan::tmp_bytes
  line,      // payload of rank's line of this call (kLineBytes)
  slot,      // rank's slot of this call (kSlotBytes): written before or after arriving
  stage,     // rank's staging buffers, kStageHalves of kStageBytes
  result,    // rank's result buffers, kStageHalves of kResultBytes: written only after
             // await_arrivals
  peer_in,   // rank's input, if pooled
  peer_out,  // rank's output, if pooled
};

struct Ref {
  Space space = Space::in;
  std::int32_t rank = 0;  // in the communicator; for in, out, tmp it means nothing
  std::uint64_t offset = 0;
};

enum class Do : std::uint8_t {
  copy,            // dst[0] = src[0], n bytes
  reduce,          // each dst = src[0] op src[1] op ..., n elements, by the plan's mode
  send,            // src[0], n bytes to `peer`
  recv,            // n bytes from `peer` into dst[0]
  arrive,          // show this rank's line: fingerprint, addresses, and src[0] (n bytes) if given
  await_arrivals,  // until every rank's line of this call is there and says the same call
  unless_pooled,   // go to step n unless the buffers of `peer` (-1: of every rank) are pooled
  if_any_pooled,   // go to step n if the buffers of any rank are pooled
  signal,          // this rank has reached `round` (1, 2, ...) of the call
  await_all,       // until every rank has signalled `round`
  await_one,       // until `peer` has signalled `round`
  claim,           // take chunks of `chunk` elements out of n until none is left: reduce as above;
                   // done when every chunk is done, whoever did it
  stop,            // the end of a chain
};

struct Step {
  Do what = Do::stop;
  kernels::Stores stores = kernels::Stores::cached;
  bool shown = false;   // copy, reduce: for peers; how to store is decided then (coll/shown.h)
  bool divide = false;  // reduce, claim: avg's division follows
  std::uint16_t n_dst = 0, n_src = 0;
  std::int32_t peer = 0;
  std::uint32_t dst = 0, src = 0;  // first of n_dst (n_src) entries of Plan::refs
  std::uint32_t round = 0;         // send, recv: what pairs them; signals: the phase
  std::uint32_t chunk = 0;
  std::uint32_t succ = 0, n_succ = 0, n_deps = 0;  // graph: entries of Plan::succs
  std::uint64_t n = 0;
};

struct Plan {
  std::vector<Step> steps;
  std::vector<Ref> refs;
  std::vector<std::uint32_t> succs;
  std::uint64_t tmp_bytes = 0;
  bool chain = false;
  bool shared = false;  // uses lines, slots, signals: one such plan at a time on a communicator
  bool has_claims = false;
  bool offers = false;  // has a branch: arriving shows the addresses of pooled buffers

  Dtype dtype = Dtype::u8;
  Op op = Op::sum;
  bool exact = false;
};

// From here on, bytes, it matters how blocks are stored that peers read next.
inline constexpr std::uint64_t kShownFrom = 4096;

// Builds a plan; steps are named by the number that adding them returned.
class PlanBuilder {
 public:
  using Id = std::uint32_t;

  static PlanBuilder chain();
  static PlanBuilder graph();

  // The reduction that later reduce() and claim() steps carry out.
  void reduction(Dtype dtype, Op op, bool exact);
  Ref tmp(std::uint64_t n_bytes);  // a fresh part of the scratch, aligned to 128

  Id copy(Ref dst, Ref src, std::uint64_t n_bytes,
          kernels::Stores stores = kernels::Stores::cached);
  Id reduce(const std::vector<Ref>& dsts, const std::vector<Ref>& srcs, std::uint64_t count,
            kernels::Stores stores = kernels::Stores::cached);
  Id send(int peer, Ref src, std::uint64_t n_bytes, std::uint32_t round);
  Id recv(int peer, Ref dst, std::uint64_t n_bytes, std::uint32_t round);
  Id arrive();
  Id arrive(Ref payload, std::uint64_t n_bytes);
  Id await_arrivals();
  Id unless_pooled(int peer = -1);  // where these two go is set by land()
  Id if_any_pooled();
  void land(Id branch);  // the next step added is where it goes
  Id signal(std::uint32_t round);
  Id await_all(std::uint32_t round);
  Id await_one(int peer, std::uint32_t round);
  Id claim(const std::vector<Ref>& dsts, const std::vector<Ref>& srcs, std::uint64_t count,
           std::uint32_t chunk, kernels::Stores stores = kernels::Stores::cached);
  Id stop();

  // avg: the reduction of this step is the last one, the division follows it.
  void finish(Id step) { plan_.steps[step].divide = plan_.op == Op::avg; }
  // Peers read what this reduction writes next, and this rank does not. (Of copies it is known.)
  void show(Id step);
  // Graph: `later` starts when `earlier` is done.
  void after(Id later, Id earlier);
  void after(Id later, const std::vector<Id>& earlier);

  // Ends the building: sorts out the successors and checks references.
  Plan seal() &&;

 private:
  Id add(Step step);
  std::uint32_t add_refs(const std::vector<Ref>& refs);

  Plan plan_;
  std::vector<std::pair<Id, Id>> edges_;  // earlier, later
};

// One line a step, for people and for test messages.
std::string to_string(const Plan& plan);

}  // namespace rlx
