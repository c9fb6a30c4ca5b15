// SPDX-License-Identifier: MIT OR Apache-2.0
// The C interface: life, communicators, memory.
#include "coll/api.h"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string>

#include "fabrics/shm.h"

namespace rlx::api {

World* g_world = nullptr;
bool g_left = false;

namespace {
thread_local std::string g_error_text;
}

int report(const Error& error) {
  g_error_text = error.text;
  return static_cast<int>(error.code);
}

Status initialized() {
  if (g_world) return {};
  return fail(Code::kInvalid,
              "rlx is not initialised: call rlx_init first, and nothing after rlx_finalize");
}

tl::unexpected<Error> no_communicator(rlx_comm comm) {
  if (Status ready = initialized(); !ready) return tl::unexpected<Error>(std::move(ready.error()));
  return fail(Code::kInvalid,
              comm ? "this rlx_comm is not a communicator, or was freed" : "the rlx_comm is NULL");
}

Status wrong_dtype(rlx_dtype dtype) {
  return fail(Code::kInvalid, fmt::format("{} is not an rlx_dtype (0..{})", static_cast<int>(dtype),
                                          kDtypeCount - 1));
}

Status wrong_buffer(const char* name, const void* data, std::uint64_t count, rlx_dtype dtype) {
  RLX_TRY(check_dtype(dtype));
  const auto type = static_cast<Dtype>(dtype);
  if (count > static_cast<std::uint64_t>(INT64_MAX) / size_of(type))
    return fail(Code::kInvalid, fmt::format("{}: {} elements of {} do not fit in memory", name,
                                            count, name_of(type)));
  if (count > 0 && !data)
    return fail(Code::kInvalid, fmt::format("{} is NULL but {} elements are wanted", name, count));
  return {};
}

Status wrong_rank(const char* name, const Communicator& comm, int rank) {
  return fail(Code::kInvalid, fmt::format("{} {} is not a rank of {} (0..{})", name, rank,
                                          comm.name(), comm.size() - 1));
}

namespace {

Result<ShmWire*> pool_owner() {
  RLX_TRY(initialized());
  return g_world->endpoint().shm();
}

Status make_part(rlx_comm comm, int colour, int key, rlx_comm* part, Purpose purpose) {
  const char* const verb = purpose == Purpose::comm_dup ? "dup" : "split";
  RLX_TRY_ASSIGN(Communicator* const parent, communicator(comm));
  if (!part) return fail(Code::kInvalid, fmt::format("rlx_comm_{}: the result is NULL", verb));
  if (colour < RLX_UNDEFINED)
    return fail(
        Code::kInvalid,
        fmt::format("rlx_comm_split: colour {} is negative; 0 or more, or RLX_UNDEFINED", colour));
  const auto name = fmt::format("{}.{}.{}", parent->name(), verb, parent->next_child());
  RLX_TRY_ASSIGN(Communicator* const made, g_world->split(*parent, colour, key, name, purpose));
  *part = to_handle(made);
  return {};
}

}  // namespace
}  // namespace rlx::api

#define RLX_TEXT_OF(x) #x
#define RLX_TEXT(x) RLX_TEXT_OF(x)

using namespace rlx;
using namespace rlx::api;

extern "C" {

int rlx_init(void) {
  return guarded([]() -> Status {
    if (g_world) return fail(Code::kInvalid, "rlx_init was called twice");
    if (g_left)
      return fail(Code::kInvalid,
                  "rlx_init after rlx_finalize: a process joins its job once, so call rlx_finalize "
                  "only when nothing more is to be done");
    RLX_TRY_ASSIGN(auto world, World::join());
    g_world = world.release();
    return {};
  });
}

int rlx_finalize(void) {
  return guarded([]() -> Status {
    RLX_TRY(initialized());
    g_left = true;
    Status status = g_world->finalize();
    delete std::exchange(g_world, nullptr);
    return status;
  });
}

int rlx_initialized(void) { return g_world != nullptr; }

void rlx_abort(int exit_code, const char* why) {
  const int code = exit_code >= 1 && exit_code <= 255 ? exit_code : 1;
  if (g_world) g_world->abort(code, why ? why : "rlx_abort");
  std::fprintf(stderr, "rlx: abort %s: %s\n", g_left ? "after rlx_finalize" : "before rlx_init",
               why ? why : "");
  std::_Exit(code);
}

const char* rlx_error_text(void) { return g_error_text.c_str(); }
const char* rlx_error_name(int error) { return code_name(static_cast<Code>(error)); }
const char* rlx_version(void) {
  return RLX_TEXT(RLX_VERSION_MAJOR) "." RLX_TEXT(RLX_VERSION_MINOR) "." RLX_TEXT(
      RLX_VERSION_PATCH);
}

rlx_comm rlx_world(void) { return g_world ? to_handle(&g_world->world()) : nullptr; }

int rlx_comm_rank(rlx_comm comm) {
  const auto found = communicator(comm);
  return found ? (*found)->rank() : (report(found.error()), RLX_UNDEFINED);
}

int rlx_comm_size(rlx_comm comm) {
  const auto found = communicator(comm);
  return found ? (*found)->size() : (report(found.error()), RLX_UNDEFINED);
}

int rlx_local_rank(void) {
  if (!g_world) return RLX_UNDEFINED;
  const auto& local = g_world->local_ranks();
  return static_cast<int>(std::ranges::find(local, g_world->facts().rank) - local.begin());
}

int rlx_local_size(void) {
  return g_world ? static_cast<int>(g_world->local_ranks().size()) : RLX_UNDEFINED;
}

int rlx_comm_dup(rlx_comm comm, rlx_comm* copy) {
  return guarded([&] { return make_part(comm, 0, 0, copy, Purpose::comm_dup); });
}

int rlx_comm_split(rlx_comm comm, int colour, int key, rlx_comm* part) {
  return guarded([&] { return make_part(comm, colour, key, part, Purpose::comm_split); });
}

int rlx_comm_free(rlx_comm* comm) {
  return guarded([&]() -> Status {
    if (!comm) return fail(Code::kInvalid, "rlx_comm_free: the handle's address is NULL");
    RLX_TRY_ASSIGN(Communicator* const found, communicator(*comm));
    RLX_TRY(g_world->free(found));
    *comm = nullptr;
    return {};
  });
}

int rlx_alloc(uint64_t n_bytes, void** memory) {
  return guarded([&]() -> Status {
    if (!memory) return fail(Code::kInvalid, "rlx_alloc: the result's address is NULL");
    RLX_TRY_ASSIGN(ShmWire* const pool, pool_owner());
    if (pool) {
      RLX_TRY_ASSIGN(*memory, pool->pool_alloc(n_bytes));
      return {};
    }
    // No peer on this host could read it: any memory will do.
    constexpr std::uint64_t kAlign = 128;
    if (n_bytes > UINT64_MAX - kAlign)
      return fail(Code::kNoMemory, fmt::format("rlx_alloc: {} bytes", n_bytes));
    void* const found = std::aligned_alloc(kAlign, (n_bytes + kAlign) / kAlign * kAlign);
    if (!found) return fail(Code::kNoMemory, fmt::format("rlx_alloc: {} bytes", n_bytes));
    *memory = found;
    return {};
  });
}

int rlx_free(void* memory) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(ShmWire* const pool, pool_owner());
    if (!memory) return {};
    if (pool) return pool->pool_free(memory);
    std::free(memory);
    return {};
  });
}

}  // extern "C"
