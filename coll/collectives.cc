// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/collectives.h"

#include <array>
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

Key key_of(const Shape& shape) {
  const auto byte = [](auto value, int at) {
    return static_cast<std::uint64_t>(value) << (8 * at);
  };
  return {byte(shape.coll, 0) | byte(shape.dtype, 1) | byte(shape.op, 2) |
              byte(static_cast<int>(shape.mode) * 4 + shape.in_place * 2 + shape.pooled, 3) |
              byte(static_cast<std::uint32_t>(shape.root), 4),
          shape.count};
}

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93;
  return value ^ value >> 32;
}

// What all ranks must agree on; the counts of v forms are known to some ranks only.
CallText text_of(const Shape& shape, const Algorithm* algorithm) {
  CallText text;
  text.count = shape.coll == Coll::all_gatherv ? payload_bytes(shape) / size_of(shape.dtype)
               : shape.is_v()                  ? 0
                                               : shape.count;
  text.root = shape.root;
  text.coll = static_cast<std::uint8_t>(shape.coll);
  text.dtype = static_cast<std::uint8_t>(shape.dtype);
  text.op = static_cast<std::uint8_t>(shape.op);
  text.mode = static_cast<std::uint8_t>(shape.mode);
  text.algorithm = static_cast<std::uint16_t>(index_of(algorithm));
  return text;
}

std::uint64_t fingerprint_of(const CallText& text) {
  const std::uint64_t what = std::uint64_t{text.coll} | std::uint64_t{text.dtype} << 8 |
                             std::uint64_t{text.op} << 16 | std::uint64_t{text.mode} << 24 |
                             std::uint64_t{static_cast<std::uint32_t>(text.root)} << 32;
  return mix(mix(what) ^ mix(text.count + 1) ^ text.algorithm);
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

  Impl(Engine& e, Group group, Selector s)
      : engine(e), channel(std::move(group)), selector(std::move(s)), cache(kCacheSlots) {}

  void fill(Entry& entry, const Shape& shape) {
    const Choice choice = selector.choose(shape);
    entry.plan = std::make_shared<const Plan>(choice.algorithm->plan(shape, choice.params));
    entry.text = text_of(shape, choice.algorithm);
    entry.fingerprint = fingerprint_of(entry.text);
  }

  // The cached entry of a shape; made if it is not there.
  Entry& find(const Shape& shape) {
    const Key key = key_of(shape);
    Entry& entry = cache[(key.what * 31 + key.count * 0x9e3779b97f4a7c15) >> 56];
    if (entry.key == key) [[likely]]
      return entry;
    if (entry.plan != nullptr && channel.n_pending > 0) replaced.push_back(std::move(entry.plan));
    if (channel.n_pending == 0) replaced.clear();
    fill(entry, shape);
    entry.key = key;
    return entry;
  }

  Shape shape_of(const Call& call) const;
  Job job_of(const Call& call);

  Engine& engine;
  Channel channel;
  Selector selector;
  std::vector<Entry> cache;                           // direct-mapped
  std::vector<std::shared_ptr<const Plan>> replaced;  // plans that tasks may still run
};

Shape Collectives::Impl::shape_of(const Call& call) const {
  const Group& group = channel.group;
  Shape shape;
  shape.coll = call.coll;
  shape.dtype = call.dtype;
  shape.op = call.op;
  shape.mode = call.mode;
  shape.root = call.root;
  shape.rank = group.rank;
  shape.n_ranks = group.size();
  shape.count = call.count;
  shape.send = call.send;
  shape.recv = call.recv;
  shape.one_host = !group.areas.empty();
  const bool places = call.coll != Coll::scatter && call.coll != Coll::gather;
  shape.in_place = (places || shape.is_root()) && call.out != nullptr &&
                   is_in_place(call, static_cast<std::uint64_t>(group.rank), shape.n_bytes());
  return shape;
}

Job Collectives::Impl::job_of(const Call& call) {
  Shape shape = shape_of(call);
  Job job;
  job.channel = &channel;
  job.in = call.in;
  job.out = call.out;
  const bool many = call.coll == Coll::reduce_scatter || call.coll == Coll::all_to_all ||
                    call.coll == Coll::scatter;
  job.in_bytes = shape.n_bytes() * (many ? static_cast<std::uint64_t>(shape.n_ranks) : 1);
  job.out_bytes = shape.n_bytes();  // of the one collective that writes to peers' outputs
  if (shape.one_host && job.in_bytes >= kPooledFrom && call.in != nullptr) {
    Links& links = engine.links();
    shape.pooled = links.in_pool(call.in, job.in_bytes) &&
                   (call.coll != Coll::all_reduce || links.in_pool(call.out, job.out_bytes));
  }
  job.pooled = shape.pooled;
  if (shape.is_v()) {
    Entry entry;
    fill(entry, shape);
    job.owned = std::move(entry.plan);
    job.text = entry.text;
    job.fingerprint = entry.fingerprint;
    return job;
  }
  const Entry& entry = find(shape);
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

Shape Collectives::shape_of(const Call& call) const { return impl_->shape_of(call); }
Selector& Collectives::selector() { return impl_->selector; }
const Group& Collectives::group() const { return impl_->channel.group; }
int Collectives::n_pending() const { return impl_->channel.n_pending; }

}  // namespace rlx
