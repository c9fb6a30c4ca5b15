// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/collectives.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "coll/area.h"

namespace rlx {
namespace {

// Below it buffers are copied through slots anyway: nobody asks where they lie.
constexpr std::uint64_t kPooledFrom = 4096;
constexpr std::size_t kCacheSlots = 256;

struct Key {
  std::uint64_t what = ~std::uint64_t{0};
  std::uint64_t count = 0;
  bool operator==(const Key& other) const { return what == other.what && count == other.count; }
};

Key key_of(const Call& call, bool in_place, bool pooled) {
  const auto byte = [](auto value, int at) {
    return static_cast<std::uint64_t>(value) << (8 * at);
  };
  return {byte(call.coll, 0) | byte(call.dtype, 1) | byte(call.op, 2) |
              byte(static_cast<int>(call.purpose) * 16 + static_cast<int>(call.mode) * 4 +
                       in_place * 2 + pooled,
                   3) |
              byte(static_cast<std::uint32_t>(call.root), 4),
          call.count};
}

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  return value ^ value >> 32;
}

// What all ranks must agree on; the counts of v forms are known to some ranks only.
CallText text_of(const Shape& shape, const Algorithm* algorithm, Purpose purpose) {
  CallText text;
  text.count = shape.coll == Coll::all_gatherv ? payload_bytes(shape) / size_of(shape.dtype)
               : shape.is_v()                  ? 0
                                               : shape.count;
  text.root = shape.root;
  text.coll = static_cast<std::uint8_t>(shape.coll);
  text.dtype = static_cast<std::uint8_t>(shape.dtype);
  text.op = static_cast<std::uint8_t>(shape.op);
  text.mode = static_cast<std::uint8_t>(shape.mode);
  text.purpose = purpose;
  text.algorithm = static_cast<std::uint16_t>(index_of(algorithm));
  return text;
}

std::uint64_t fingerprint_of(const CallText& text) {
  const std::uint64_t what = std::uint64_t{text.coll} | std::uint64_t{text.dtype} << 8 |
                             std::uint64_t{text.op} << 16 | std::uint64_t{text.mode} << 24 |
                             std::uint64_t{static_cast<std::uint32_t>(text.root)} << 32;
  const std::uint64_t how = text.algorithm | std::uint64_t{static_cast<std::uint8_t>(text.purpose)}
                                                 << 16;
  return mix(mix(what) ^ mix(text.count + 1) ^ how);
}

bool is_place(const void* a, const void* base, std::uint64_t offset) {
  return a == static_cast<const std::byte*>(base) + offset;
}

bool is_in_place(const Call& call, std::uint64_t rank, std::uint64_t block) {
  switch (call.coll) {
    case Coll::all_reduce:
    case Coll::reduce:
      return call.in == call.out;
    case Coll::all_gather:
    case Coll::gather:
      return is_place(call.in, call.out, rank * block);
    case Coll::reduce_scatter:
    case Coll::scatter:
      return is_place(call.out, call.in, rank * block);
    case Coll::all_gatherv:
    case Coll::gatherv:
      return !call.recv.displs.empty() &&
             is_place(call.in, call.out, call.recv.displs[rank] * size_of(call.dtype));
    case Coll::scatterv:
      return !call.send.displs.empty() &&
             is_place(call.out, call.in, call.send.displs[rank] * size_of(call.dtype));
    case Coll::barrier:
    case Coll::broadcast:
    case Coll::all_to_all:
    case Coll::all_to_allv:
      return false;
  }
  return false;
}

}  // namespace

struct Collectives::Impl {
  struct Entry {
    Key key;
    std::shared_ptr<const Plan> plan;
    CallText text;
    std::uint64_t fingerprint = 0;
  };

  // The last call of a v form. Which of the four lists there are, the key and the rank decide.
  struct LastV : Entry {
    std::vector<std::uint64_t> lists;
    bool has(const Call& call) const {
      std::size_t at = 0;
      for (const auto& list : lists_of(call)) {
        if (list.size() > lists.size() - at ||
            !std::equal(list.begin(), list.end(), lists.begin() + static_cast<std::ptrdiff_t>(at)))
          return false;
        at += list.size();
      }
      return at == lists.size();
    }
    void take(const Call& call) {
      lists.clear();
      for (const auto& list : lists_of(call)) lists.insert(lists.end(), list.begin(), list.end());
    }
    static std::array<std::span<const std::uint64_t>, 4> lists_of(const Call& call) {
      return {call.send.counts, call.send.displs, call.recv.counts, call.recv.displs};
    }
  };

  Impl(Engine& e, Group group, Selector s)
      : engine(e), channel(std::move(group)), selector(std::move(s)), cache(kCacheSlots) {}

  void fill(Entry& entry, const Shape& shape, Purpose purpose) {
    const Choice choice = selector.choose(shape);
    entry.plan = std::make_shared<const Plan>(choice.algorithm->plan(shape, choice.params));
    entry.text = text_of(shape, choice.algorithm, purpose);
    entry.fingerprint = fingerprint_of(entry.text);
  }

  // The cached entry of a call; made if it is not there.
  const Entry& find(const Call& call, bool in_place, bool pooled) {
    const Key key = key_of(call, in_place, pooled);
    Entry& entry = cache[(key.what * 31 + key.count * 0x9e3779b97f4a7c15) >> 56];
    if (entry.key == key) [[likely]]
      return entry;
    if (entry.plan != nullptr && channel.n_pending > 0) replaced.push_back(std::move(entry.plan));
    if (channel.n_pending == 0) replaced.clear();
    fill(entry, shape_of(call, in_place, pooled), call.purpose);
    entry.key = key;
    return entry;
  }

  const Entry& find_v(const Call& call, bool in_place, bool pooled) {
    const Key key = key_of(call, in_place, pooled);
    LastV& last = last_v[static_cast<std::size_t>(call.coll)];
    if (last.key == key && last.has(call)) return last;
    fill(last, shape_of(call, in_place, pooled), call.purpose);
    last.key = key;
    last.take(call);
    return last;
  }

  bool in_place_of(const Call& call) const;
  Shape shape_of(const Call& call, bool in_place, bool pooled) const;
  Job job_of(const Call& call);

  Engine& engine;
  Channel channel;
  Selector selector;
  std::vector<Entry> cache;                           // direct-mapped
  std::vector<std::shared_ptr<const Plan>> replaced;  // plans that tasks may still run
  std::array<LastV, kCollCount> last_v;               // v forms, by Coll
};

bool Collectives::Impl::in_place_of(const Call& call) const {
  const int rank = channel.group.rank;
  const bool at_root = call.coll == Coll::scatter || call.coll == Coll::gather;
  return call.out != nullptr && (!at_root || rank == call.root) &&
         is_in_place(call, static_cast<std::uint64_t>(rank), call.count * size_of(call.dtype));
}

Shape Collectives::Impl::shape_of(const Call& call, bool in_place, bool pooled) const {
  const Group& group = channel.group;
  return {.coll = call.coll,
          .dtype = call.dtype,
          .op = call.op,
          .mode = call.mode,
          .root = call.root,
          .rank = group.rank,
          .n_ranks = group.size(),
          .count = call.count,
          .in_place = in_place,
          .pooled = pooled,
          .one_host = !group.areas.empty(),
          .send = call.send,
          .recv = call.recv};
}

Job Collectives::Impl::job_of(const Call& call) {
  Job job;
  job.channel = &channel;
  job.in = call.in;
  job.out = call.out;
  const bool many = call.coll == Coll::reduce_scatter || call.coll == Coll::all_to_all ||
                    call.coll == Coll::scatter;
  job.out_bytes = call.count * size_of(call.dtype);  // of the one collective that writes to peers
  job.in_bytes = job.out_bytes * (many ? channel.group.world.size() : 1);
  if (job.in_bytes >= kPooledFrom && call.in != nullptr && !channel.group.areas.empty()) {
    Links& links = engine.links();
    job.pooled = links.in_pool(call.in, job.in_bytes) &&
                 (call.coll != Coll::all_reduce || links.in_pool(call.out, job.out_bytes));
  }
  const bool in_place = in_place_of(call);
  if (is_v(call.coll)) {
    const Entry& entry = find_v(call, in_place, job.pooled);
    const auto size = size_of(call.dtype);
    const auto rank = static_cast<std::size_t>(channel.group.rank);
    // The block that a rank gives itself is in both of its arguments.
    if (call.coll != Coll::all_gatherv &&
        (call.coll == Coll::all_to_allv || rank == static_cast<std::size_t>(call.root))) {
      job.own_sent = (call.send.counts.empty() ? call.count : call.send.counts[rank]) * size;
      job.own_expected = (call.recv.counts.empty() ? call.count : call.recv.counts[rank]) * size;
    }
    job.owned = entry.plan;  // the next call may have another one
    job.text = entry.text;
    job.fingerprint = entry.fingerprint;
    return job;
  }
  const Entry& entry = find(call, in_place, job.pooled);
  job.plan = entry.plan.get();
  job.text = entry.text;
  job.fingerprint = entry.fingerprint;
  return job;
}

Collectives::Collectives(Engine& engine, Group group, Selector selector)
    : impl_(std::make_unique<Impl>(engine, std::move(group), std::move(selector))) {
  engine.add(&impl_->channel);
}

Collectives::~Collectives() { impl_->engine.remove(&impl_->channel); }

Status Collectives::run(const Call& call, Deadline deadline) {
  return impl_->engine.run(impl_->job_of(call), deadline);
}

Request* Collectives::start(const Call& call) { return impl_->engine.start(impl_->job_of(call)); }

Shape Collectives::shape_of(const Call& call) const {
  return impl_->shape_of(call, impl_->in_place_of(call), false);
}
bool Collectives::works_in_place(const Call& call) const { return impl_->in_place_of(call); }
Selector& Collectives::selector() { return impl_->selector; }
const Group& Collectives::group() const { return impl_->channel.group; }
int Collectives::n_pending() const { return impl_->channel.n_pending; }

}  // namespace rlx
