// SPDX-License-Identifier: MIT OR Apache-2.0
// A plan that is being run: the plan bound to memory and peers, and how far it has come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coll/area.h"
#include "coll/engine.h"
#include "coll/links.h"
#include "coll/plan.h"
#include "fabrics/request.h"

namespace rlx {

// Scratch memory that grows and is kept: fresh pages are slow.
class Scratch {
 public:
  void reserve(std::uint64_t n_bytes);
  std::byte* data() const { return data_; }

 private:
  std::unique_ptr<std::byte[]> owned_;
  std::byte* data_ = nullptr;  // aligned to 128
  std::uint64_t room_ = 0;
};

struct Task final : Request {
  // --- what and where ---
  Channel* channel = nullptr;
  const Plan* plan = nullptr;
  std::shared_ptr<const Plan> plan_owned;
  std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::uint64_t in_bytes = 0, out_bytes = 0;
  bool pooled = false;
  kernels::Stores shown_stores = kernels::Stores::cached;  // of steps that are `shown`
  bool timed = false;                                      // somebody asks what that took:
  std::int64_t spent_ns = 0;                               // in steps that copy and reduce
  CallText call;
  std::uint64_t fingerprint = 0;    // of the call and all before it on the communicator
  std::uint64_t shared_number = 0;  // among the plans in shared memory; plans with messages: 0
  Scratch tmp;
  std::byte* base[3];           // by Space: in, out, tmp
  std::size_t in_area[7] = {};  // by Space: line, slot, stage, result

  // --- how far: a chain ---
  std::uint32_t at_step = 0;
  std::uint32_t at_peer = 0;  // of a step that waits for all: those before have come
  std::vector<std::byte*> peer_in, peer_out;
  std::vector<void*> dsts;  // room for one step
  std::vector<const void*> srcs;

  // --- how far: a graph ---
  struct InFlight {
    std::uint32_t step;
    Request* request;
  };
  std::vector<std::uint32_t> deps;   // by step: how many it still waits for
  std::vector<std::uint32_t> ready;  // steps that may start
  std::vector<InFlight> in_flight;
  std::uint32_t n_left = 0;

  // --- trouble ---
  std::int64_t idle_since_ns = 0;  // 0: moved lately
  bool reported = false;           // told the others that we wait in this call

  // Before the first advance: binds to the job.
  void bind(const Job& job, std::uint64_t number, std::uint64_t shared);
  // A plan in shared memory, when those before it have ended: how to store what peers read next.
  void choose_stores();
  // As far as it goes now; true if anything moved. When the plan is at its end, or something went
  // wrong, `ended` is set (and `trouble` in the second case).
  bool advance(Links& links);
  // This rank leaves the call: peers stop using its buffers, and do not trust what they read there.
  void give_up();
  // The first rank that has left the call like that; -1 if none.
  int gave_up() const;
  bool ended = false;
  bool closing = false;  // has its error, and tells it when all ranks know
  Code trouble = Code::kOk;
  std::string trouble_text;
  int mismatched_with = -1;  // rank whose call differs, with kMismatch
  void fail_with(Code code, std::string text);

 private:
  enum class Ran { done, blocked, again };
  bool advance_chain(Links& links);
  bool advance_graph(Links& links);
  Ran run_chain_step(const Step& step, Links& links);
  Ran await_arrivals(Links& links);
  Ran await_round(const Step& step);
  bool pooled_at(int rank) const;
  bool any_pooled() const;
  Ran claim(const Step& step, Links& links);
  void check_given_up();
  void arrive(const Step& step, Links& links);
  void start_step(std::uint32_t step, Links& links);
  void finish_step(std::uint32_t step);
  void check_in_flight();
  void note_arrival(int peer);
  void work(const Step& step);
  void copy(const Step& step);
  void reduce(const Step& step, std::uint64_t first, std::uint64_t count);
  void bind_spaces();
  std::byte* at(const Ref& ref) const;
  Area& area(int rank) const { return *channel->group.areas[rank]; }
  void ring(Links& links) const { links.ring(channel->group.world); }
};

inline std::byte* Task::at(const Ref& ref) const {
  const int space = static_cast<int>(ref.space);
  if (ref.space <= Space::tmp) return base[space] + ref.offset;
  if (ref.space <= Space::result)
    return reinterpret_cast<std::byte*>(&area(ref.rank)) + in_area[space] + ref.offset;
  return (ref.space == Space::peer_in ? peer_in : peer_out)[ref.rank] + ref.offset;
}

// Of a v form, whose counts are known in part to each rank.
std::string uneven_text(int from, std::uint64_t n_sent, int to, std::uint64_t n_expected);

// Tags of collective messages: context (16 bits) and call number (14 bits) keep calls apart, the
// round pairs sends with receives inside a call, and 16 bits of the fingerprint ride along: a
// receive accepts any and compares afterwards.
inline constexpr std::uint64_t kTagFingerprint = 0xffff;
std::uint64_t message_tag(const Task& task, std::uint32_t round);
// Of the messages that tell others what call a rank waits in.
inline constexpr std::uint64_t kReportTag = 0xC000000000000000;
inline constexpr std::uint64_t kReportMask = 0xC000000000000000;

}  // namespace rlx
