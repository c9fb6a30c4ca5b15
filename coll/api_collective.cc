// SPDX-License-Identifier: MIT OR Apache-2.0
// The C interface: collectives, each blocking and non-blocking over one checked Call.
#include "coll/api.h"

namespace rlx::api {
namespace {

// The arguments of all forms; what a form does not have stays as it is here.
struct Arguments {
  Coll coll;
  const void* in = nullptr;
  void* out = nullptr;
  std::uint64_t count = 0;
  int dtype = RLX_U8;
  int op = RLX_SUM;
  int mode = RLX_FAST;
  int root = 0;
  const std::uint64_t *send_counts = nullptr, *send_displs = nullptr;
  const std::uint64_t *recv_counts = nullptr, *recv_displs = nullptr;
};

Status check_reduction(const Arguments& a) {
  if (a.op < 0 || a.op >= kOpCount)
    return fail(Code::kInvalid, fmt::format("{} is not an rlx_op (0..{})", a.op, kOpCount - 1));
  if (a.mode < RLX_FAST || a.mode > RLX_EXACT)
    return fail(Code::kInvalid,
                fmt::format("{} is not an rlx_mode (0..{})", a.mode, static_cast<int>(RLX_EXACT)));
  const auto op = static_cast<Op>(a.op);
  const auto dtype = static_cast<Dtype>(a.dtype);
  if (!op_applies(op, dtype))
    return fail(Code::kInvalid, fmt::format("{} does not apply to {}: it takes integer types",
                                            name_of(op), name_of(dtype)));
  if (a.mode == RLX_EXACT && op == Op::prod && is_float(dtype))
    return fail(Code::kUnsupported,
                "there is no exact product of floats; use RLX_ORDERED, or sums");
  return {};
}

Result<Blocks> blocks(const char* name, const void* data, const Arguments& a,
                      const Communicator& comm, const std::uint64_t* counts,
                      const std::uint64_t* displs) {
  if (!counts || !displs)
    return fail(Code::kInvalid, fmt::format("counts or displs of {} are NULL", name));
  const auto p = static_cast<std::size_t>(comm.size());
  for (std::size_t r = 0; r < p; ++r) {
    std::uint64_t end = 0;
    if (__builtin_add_overflow(counts[r], displs[r], &end))
      return fail(Code::kInvalid, fmt::format("{}: block {} ends beyond 2^64 elements", name, r));
    RLX_TRY(check_buffer(name, data, counts[r] ? end : 0, static_cast<rlx_dtype>(a.dtype)));
  }
  return Blocks{{counts, p}, {displs, p}};
}

bool is_root_only_out(Coll coll) {
  return coll == Coll::reduce || coll == Coll::gather || coll == Coll::gatherv;
}
bool is_root_only_in(Coll coll) { return coll == Coll::scatter || coll == Coll::scatterv; }
bool has_root(Coll coll) {
  return is_root_only_out(coll) || is_root_only_in(coll) || coll == Coll::broadcast;
}
bool reduces(Coll coll) {
  return coll == Coll::reduce || coll == Coll::all_reduce || coll == Coll::reduce_scatter;
}
bool blocks_in(Coll coll) {
  return coll == Coll::reduce_scatter || coll == Coll::all_to_all || coll == Coll::scatter;
}
bool blocks_out(Coll coll) {
  return coll == Coll::all_gather || coll == Coll::all_to_all || coll == Coll::gather;
}

bool overlap(const void* a, std::uint64_t n_a, const void* b, std::uint64_t n_b) {
  const auto at_a = reinterpret_cast<std::uintptr_t>(a), at_b = reinterpret_cast<std::uintptr_t>(b);
  return at_a < at_b ? n_b != 0 && at_b - at_a < n_a : n_a != 0 && at_a - at_b < n_b;
}

// Input and output share memory only where the operation works in place. (Of the v forms that is
// left to the caller: it would mean to compare every two blocks.)
Status check_apart(const Call& call, Communicator& comm, bool is_root) {
  const Coll coll = call.coll;
  if (coll == Coll::broadcast || ((is_root_only_in(coll) || is_root_only_out(coll)) && !is_root))
    return {};
  const std::uint64_t n = call.count * size_of(call.dtype);
  const auto p = static_cast<std::uint64_t>(comm.size());
  const std::uint64_t n_in = blocks_in(coll) ? n * p : n, n_out = blocks_out(coll) ? n * p : n;
  if (!overlap(call.in, n_in, call.out, n_out) || comm.collectives().works_in_place(call))
      [[likely]]
    return {};
  return fail(Code::kInvalid,
              fmt::format("in ({} bytes at {}) and out ({} bytes at {}) overlap, and not as {} in "
                          "place allows: use two buffers",
                          n_in, call.in, n_out, call.out, name_of(coll)));
}

Status check_plain_buffers(const Arguments& a, const Communicator& comm, bool is_root) {
  const auto p = static_cast<std::uint64_t>(comm.size());
  if (a.count > UINT64_MAX / p)
    return fail(Code::kInvalid,
                fmt::format("{} elements for each of {} ranks are over 2^64", a.count, p));
  const auto dtype = static_cast<rlx_dtype>(a.dtype);
  if (!is_root_only_in(a.coll) || is_root)
    RLX_TRY(check_buffer("in", a.in, blocks_in(a.coll) ? a.count * p : a.count, dtype));
  if (!is_root_only_out(a.coll) || is_root)
    RLX_TRY(check_buffer("out", a.out, blocks_out(a.coll) ? a.count * p : a.count, dtype));
  return {};
}

Status check_v_buffers(const Arguments& a, const Communicator& comm, bool is_root, Call& call) {
  const bool sends = a.coll == Coll::all_to_allv || (a.coll == Coll::scatterv && is_root);
  const bool receives = a.coll != Coll::scatterv && (a.coll != Coll::gatherv || is_root);
  if (sends) {
    RLX_TRY_ASSIGN(call.send, blocks("in", a.in, a, comm, a.send_counts, a.send_displs));
  }
  if (receives) {
    RLX_TRY_ASSIGN(call.recv, blocks("out", a.out, a, comm, a.recv_counts, a.recv_displs));
  }
  const auto dtype = static_cast<rlx_dtype>(a.dtype);
  if (a.coll == Coll::all_gatherv)
    return check_buffer("in", a.in, a.recv_counts[comm.rank()], dtype);
  if (a.coll == Coll::gatherv) return check_buffer("in", a.in, a.count, dtype);
  if (a.coll == Coll::scatterv) return check_buffer("out", a.out, a.count, dtype);
  return {};
}

Result<Call> checked(const Arguments& a, Communicator& comm) {
  RLX_TRY(check_dtype(static_cast<rlx_dtype>(a.dtype)));
  if (has_root(a.coll)) RLX_TRY(check_rank("root", comm, a.root));
  Call call{.coll = a.coll,
            .dtype = static_cast<Dtype>(a.dtype),
            .root = a.root,
            .count = a.count,
            .in = a.in,
            .out = a.out};
  if (reduces(a.coll)) {
    RLX_TRY(check_reduction(a));
    call.op = static_cast<Op>(a.op);
    call.mode = static_cast<Mode>(a.mode);
  }
  const bool is_root = comm.rank() == a.root;
  if (Shape{.coll = a.coll}.is_v()) {
    RLX_TRY(check_v_buffers(a, comm, is_root, call));
  } else {
    RLX_TRY(check_plain_buffers(a, comm, is_root));
    RLX_TRY(check_apart(call, comm, is_root));
  }
  return call;
}

int run(const Arguments& a, rlx_comm comm) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(Communicator* const found, communicator(comm));
    RLX_TRY_ASSIGN(const Call call, checked(a, *found));
    return found->collectives().run(call, World::deadline());
  });
}

int start(const Arguments& a, rlx_comm comm, rlx_request* request) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(Communicator* const found, communicator(comm));
    RLX_TRY_ASSIGN(const Call call, checked(a, *found));
    if (!request) return fail(Code::kInvalid, "request is NULL");
    *request = to_handle(found->collectives().start(call));
    return {};
  });
}

}  // namespace
}  // namespace rlx::api

using rlx::Coll;
using rlx::api::Arguments;
using rlx::api::run;
using rlx::api::start;

// Defines rlx_NAME(...) and rlx_iNAME(..., request) over the same Arguments.
#define RLX_DEFINE_COLLECTIVE(name, parameters, arguments)                           \
  int rlx_##name(RLX_STRIP parameters, rlx_comm comm) {                              \
    return run(Arguments{.coll = Coll::name, RLX_STRIP arguments}, comm);            \
  }                                                                                  \
  int rlx_i##name(RLX_STRIP parameters, rlx_comm comm, rlx_request* request) {       \
    return start(Arguments{.coll = Coll::name, RLX_STRIP arguments}, comm, request); \
  }
#define RLX_STRIP(...) __VA_ARGS__

extern "C" {

int rlx_barrier(rlx_comm comm) { return run(Arguments{.coll = Coll::barrier}, comm); }
int rlx_ibarrier(rlx_comm comm, rlx_request* request) {
  return start(Arguments{.coll = Coll::barrier}, comm, request);
}

RLX_DEFINE_COLLECTIVE(broadcast, (void* data, uint64_t count, rlx_dtype dtype, int root),
                      (.in = data, .out = data, .count = count, .dtype = dtype, .root = root))
RLX_DEFINE_COLLECTIVE(reduce,
                      (const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                       rlx_mode mode, int root),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .op = op, .mode = mode,
                       .root = root))
RLX_DEFINE_COLLECTIVE(all_reduce,
                      (const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                       rlx_mode mode),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .op = op,
                       .mode = mode))
RLX_DEFINE_COLLECTIVE(all_gather, (const void* in, void* out, uint64_t count, rlx_dtype dtype),
                      (.in = in, .out = out, .count = count, .dtype = dtype))
RLX_DEFINE_COLLECTIVE(all_gatherv,
                      (const void* in, void* out, const uint64_t* counts, const uint64_t* displs,
                       rlx_dtype dtype),
                      (.in = in, .out = out, .dtype = dtype, .recv_counts = counts,
                       .recv_displs = displs))
RLX_DEFINE_COLLECTIVE(reduce_scatter,
                      (const void* in, void* out, uint64_t count, rlx_dtype dtype, rlx_op op,
                       rlx_mode mode),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .op = op,
                       .mode = mode))
RLX_DEFINE_COLLECTIVE(all_to_all, (const void* in, void* out, uint64_t count, rlx_dtype dtype),
                      (.in = in, .out = out, .count = count, .dtype = dtype))
RLX_DEFINE_COLLECTIVE(all_to_allv,
                      (const void* in, const uint64_t* send_counts, const uint64_t* send_displs,
                       void* out, const uint64_t* recv_counts, const uint64_t* recv_displs,
                       rlx_dtype dtype),
                      (.in = in, .out = out, .dtype = dtype, .send_counts = send_counts,
                       .send_displs = send_displs, .recv_counts = recv_counts,
                       .recv_displs = recv_displs))
RLX_DEFINE_COLLECTIVE(gather,
                      (const void* in, void* out, uint64_t count, rlx_dtype dtype, int root),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .root = root))
RLX_DEFINE_COLLECTIVE(gatherv,
                      (const void* in, uint64_t count, void* out, const uint64_t* counts,
                       const uint64_t* displs, rlx_dtype dtype, int root),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .root = root,
                       .recv_counts = counts, .recv_displs = displs))
RLX_DEFINE_COLLECTIVE(scatter,
                      (const void* in, void* out, uint64_t count, rlx_dtype dtype, int root),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .root = root))
RLX_DEFINE_COLLECTIVE(scatterv,
                      (const void* in, const uint64_t* counts, const uint64_t* displs, void* out,
                       uint64_t count, rlx_dtype dtype, int root),
                      (.in = in, .out = out, .count = count, .dtype = dtype, .root = root,
                       .send_counts = counts, .send_displs = displs))

}  // extern "C"
