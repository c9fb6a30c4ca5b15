// SPDX-License-Identifier: MIT OR Apache-2.0
#include "test/coll/oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/convert.h"

namespace rlx::test {
namespace {

// Element i of what rank r gives.
std::int64_t given(const Case& c, int r, std::uint64_t i) {
  const std::uint64_t mixed =
      static_cast<std::uint64_t>(r) * 5 + i * 3 + i / 97 + static_cast<std::uint64_t>(c.salt) * 7;
  return static_cast<std::int64_t>(c.op == Op::prod ? 1 + mixed % 2 : mixed % 11);
}

template <class T>
void put_as(std::byte* at, double value) {
  const auto typed = static_cast<T>(value);
  std::memcpy(at, &typed, sizeof(typed));
}

void put(Dtype dtype, std::byte* base, std::uint64_t i, double value) {
  std::byte* at = base + i * size_of(dtype);
  const auto whole = static_cast<std::int64_t>(value);
  const auto narrow = static_cast<float>(value);
  std::uint16_t half = 0;
  switch (dtype) {
    case Dtype::i8:
    case Dtype::u8:
      *at = static_cast<std::byte>(whole);
      return;
    case Dtype::i32:
      return put_as<std::int32_t>(at, value);
    case Dtype::u32:
      return put_as<std::uint32_t>(at, value);
    case Dtype::i64:
      return put_as<std::int64_t>(at, value);
    case Dtype::u64:
      return put_as<std::uint64_t>(at, value);
    case Dtype::f32:
      return put_as<float>(at, value);
    case Dtype::f64:
      return put_as<double>(at, value);
    case Dtype::f16:
      kernels::f32_to_f16(&half, &narrow, 1);
      break;
    case Dtype::bf16:
      kernels::f32_to_bf16(&half, &narrow, 1);
      break;
  }
  std::memcpy(at, &half, sizeof(half));
}

double reduced(const Case& c, std::uint64_t i) {
  std::int64_t value = given(c, 0, i);
  const auto truth = [](std::int64_t v) { return v != 0 ? 1 : 0; };
  if (c.op == Op::land || c.op == Op::lor || c.op == Op::lxor) value = truth(value);
  for (int r = 1; r < c.n_ranks; ++r) {
    const std::int64_t next = given(c, r, i);
    switch (c.op) {
      case Op::sum:
      case Op::avg:
        value += next;
        break;
      case Op::prod:
        value *= next;
        break;
      case Op::min:
        value = std::min(value, next);
        break;
      case Op::max:
        value = std::max(value, next);
        break;
      case Op::land:
        value &= truth(next);
        break;
      case Op::lor:
        value |= truth(next);
        break;
      case Op::lxor:
        value ^= truth(next);
        break;
      case Op::band:
        value &= next;
        break;
      case Op::bor:
        value |= next;
        break;
      case Op::bxor:
        value ^= next;
        break;
    }
  }
  if (c.op != Op::avg) return static_cast<double>(value);
  if (c.dtype == Dtype::f64) return static_cast<double>(value) / c.n_ranks;
  if (is_float(c.dtype)) return static_cast<float>(value) / static_cast<float>(c.n_ranks);
  return static_cast<double>(value / c.n_ranks);
}

// What rank `from` gives to rank `to` in all_to_allv.
std::uint64_t pair_count(const Case& c, int from, int to) {
  return (from + 2 * to) % 3 == 0 ? 0 : c.count + static_cast<std::uint64_t>((from + to) % 3);
}

std::uint64_t block_count(const Case& c, int r) {
  return r % 4 == 3 ? 0 : c.count + static_cast<std::uint64_t>(r % 3);
}

struct Sizes {
  std::uint64_t in = 0, out = 0, in_at = 0, out_at = 0;  // elements; *_at: where in place
};

Sizes sizes_of(const Case& c, int rank) {
  const auto p = static_cast<std::uint64_t>(c.n_ranks), r = static_cast<std::uint64_t>(rank);
  const bool root = rank == c.root;
  const std::uint64_t all = p * c.count;
  switch (c.coll) {
    case Coll::barrier:
      return {};
    case Coll::broadcast:
    case Coll::all_reduce:
      return {c.count, c.count};
    case Coll::reduce:
      return {c.count, root ? c.count : 0};
    case Coll::all_gather:
      return {c.count, all, r * c.count, 0};
    case Coll::gather:
      return {c.count, root ? all : 0, r * c.count, 0};
    case Coll::reduce_scatter:
      return {all, c.count, 0, r * c.count};
    case Coll::scatter:
      return {root ? all : 0, c.count, 0, r * c.count};
    case Coll::all_to_all:
      return {all, all};
    case Coll::all_to_allv:
      return {uneven_blocks(c, rank, true).extent, uneven_blocks(c, rank, false).extent};
    case Coll::all_gatherv:
    case Coll::gatherv: {
      const Uneven blocks = uneven_blocks(c, rank, false);
      return {blocks.counts[r], root || c.coll == Coll::all_gatherv ? blocks.extent : 0,
              blocks.displs[r], 0};
    }
    case Coll::scatterv: {
      const Uneven blocks = uneven_blocks(c, rank, true);
      return {root ? blocks.extent : 0, blocks.counts[r], 0, blocks.displs[r]};
    }
  }
  return {};
}

bool in_place(const Case& c, int rank) {
  const bool can = c.coll != Coll::all_to_all && c.coll != Coll::all_to_allv;
  const bool rooted = c.coll == Coll::reduce || c.coll == Coll::gather || c.coll == Coll::gatherv ||
                      c.coll == Coll::scatter || c.coll == Coll::scatterv;
  return c.in_place && can && (!rooted || rank == c.root);
}

}  // namespace

bool is_rooted(Coll coll) {
  return coll == Coll::broadcast || coll == Coll::reduce || coll == Coll::gather ||
         coll == Coll::gatherv || coll == Coll::scatter || coll == Coll::scatterv;
}

bool reduces(Coll coll) {
  return coll == Coll::reduce || coll == Coll::all_reduce || coll == Coll::reduce_scatter;
}

Uneven uneven_blocks(const Case& c, int rank, bool sends) {
  Uneven blocks;
  for (int r = 0; r < c.n_ranks; ++r) {
    const std::uint64_t n = c.coll != Coll::all_to_allv ? block_count(c, r)
                            : sends                     ? pair_count(c, rank, r)
                                                        : pair_count(c, r, rank);
    blocks.displs.push_back(blocks.extent + static_cast<std::uint64_t>(r % 2));
    blocks.counts.push_back(n);
    blocks.extent = blocks.displs.back() + n;
  }
  return blocks;
}

Memory memory_of(const Case& c, int rank) {
  const Sizes sizes = sizes_of(c, rank);
  const std::uint64_t size = size_of(c.dtype);
  Memory memory;
  memory.has_in = c.coll != Coll::barrier;
  memory.has_out = memory.has_in;
  if (c.coll == Coll::broadcast) {
    memory.n_bytes = c.count * size;
  } else if (in_place(c, rank)) {
    memory.in = sizes.in_at * size;
    memory.out = sizes.out_at * size;
    memory.n_bytes = std::max(memory.in + sizes.in * size, memory.out + sizes.out * size);
  } else {
    memory.out = (sizes.in * size + 63) / 64 * 64;
    memory.n_bytes = memory.out + sizes.out * size;
  }
  return memory;
}

std::vector<std::byte> before(const Case& c, int rank) {
  const Memory memory = memory_of(c, rank);
  std::vector<std::byte> bytes(memory.n_bytes, kUntouched);
  const std::uint64_t n = sizes_of(c, rank).in;
  if (c.coll == Coll::broadcast && rank != c.root) return bytes;
  for (std::uint64_t i = 0; i < n; ++i)
    put(c.dtype, bytes.data() + memory.in, i, static_cast<double>(given(c, rank, i)));
  return bytes;
}

std::vector<std::byte> after(const Case& c, int rank) {
  std::vector<std::byte> bytes = before(c, rank);
  const Memory memory = memory_of(c, rank);
  std::byte* out = bytes.data() + memory.out;
  const bool root = rank == c.root;
  const auto copy = [&](std::uint64_t to, int from_rank, std::uint64_t from, std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i)
      put(c.dtype, out, to + i, static_cast<double>(given(c, from_rank, from + i)));
  };
  const auto r = static_cast<std::uint64_t>(rank);
  switch (c.coll) {
    case Coll::barrier:
      break;
    case Coll::broadcast:
      copy(0, c.root, 0, c.count);
      break;
    case Coll::reduce:
    case Coll::all_reduce:
      for (std::uint64_t i = 0; i < c.count && (root || c.coll == Coll::all_reduce); ++i)
        put(c.dtype, out, i, reduced(c, i));
      break;
    case Coll::reduce_scatter:
      for (std::uint64_t i = 0; i < c.count; ++i) put(c.dtype, out, i, reduced(c, r * c.count + i));
      break;
    case Coll::all_gather:
    case Coll::gather:
      for (int s = 0; s < c.n_ranks && (root || c.coll == Coll::all_gather); ++s)
        copy(static_cast<std::uint64_t>(s) * c.count, s, 0, c.count);
      break;
    case Coll::scatter:
      copy(0, c.root, r * c.count, c.count);
      break;
    case Coll::all_to_all:
      for (int s = 0; s < c.n_ranks; ++s)
        copy(static_cast<std::uint64_t>(s) * c.count, s, r * c.count, c.count);
      break;
    case Coll::all_gatherv:
    case Coll::gatherv: {
      const Uneven blocks = uneven_blocks(c, rank, false);
      for (std::size_t s = 0; s < blocks.counts.size() && (root || c.coll == Coll::all_gatherv);
           ++s)
        copy(blocks.displs[s], static_cast<int>(s), 0, blocks.counts[s]);
      break;
    }
    case Coll::scatterv: {
      const Uneven blocks = uneven_blocks(c, rank, true);
      copy(0, c.root, blocks.displs[r], blocks.counts[r]);
      break;
    }
    case Coll::all_to_allv: {
      const Uneven mine = uneven_blocks(c, rank, false);
      for (int s = 0; s < c.n_ranks; ++s) {
        const Uneven theirs = uneven_blocks(c, s, true);
        copy(mine.displs[static_cast<std::size_t>(s)], s, theirs.displs[r], theirs.counts[r]);
      }
      break;
    }
  }
  return bytes;
}

void bind_call(BoundCall& bound, const Case& c, int rank, std::byte* memory) {
  const Memory layout = memory_of(c, rank);
  bound.call = {.coll = c.coll,
                .dtype = c.dtype,
                .op = c.op,
                .mode = c.mode,
                .root = c.root,
                .count = c.count,
                .in = memory + layout.in,
                .out = memory + layout.out};
  const bool root = rank == c.root;
  if (c.coll == Coll::all_gatherv || c.coll == Coll::all_to_allv ||
      (c.coll == Coll::gatherv && root)) {
    bound.recv = uneven_blocks(c, rank, false);
    bound.call.recv = {bound.recv.counts, bound.recv.displs};
  }
  if (c.coll == Coll::all_to_allv || (c.coll == Coll::scatterv && root)) {
    bound.send = uneven_blocks(c, rank, true);
    bound.call.send = {bound.send.counts, bound.send.displs};
  }
  if (c.coll == Coll::gatherv || c.coll == Coll::scatterv) bound.call.count = block_count(c, rank);
}

std::string to_string(const Case& c) {
  return fmt::format("{} P={} count={} {} {} {} root={}{} salt={}", name_of(c.coll), c.n_ranks,
                     c.count, name_of(c.dtype), name_of(c.op), name_of(c.mode), c.root,
                     c.in_place ? " in place" : "", c.salt);
}

}  // namespace rlx::test
