// SPDX-License-Identifier: MIT OR Apache-2.0
// Shared by the files of the C interface: the process's world, the error text, and argument checks.
// Handles: rlx_comm is a Communicator, rlx_request a Request.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "base/result.h"
#include "coll/world.h"
#include "rlx/rlx.h"

namespace rlx::api {

// The one global: what rlx_init made and rlx_finalize deletes; nullptr before and after. A process
// that exits in between leaves it alone: what its parts need may be gone when static objects are
// destroyed.
extern World* g_world;
// A process joins its job once: rlx_finalize was called. The launcher counts it as done then.
extern bool g_left;

// Remembers the text for rlx_error_text() and gives the code.
int report(const Error& error);

// kInvalid unless the library is initialised.
Status initialized();

inline Communicator* to_communicator(rlx_comm comm) {
  return reinterpret_cast<Communicator*>(comm);
}
inline rlx_comm to_handle(Communicator* comm) { return reinterpret_cast<rlx_comm>(comm); }
inline Request* to_request(rlx_request request) { return reinterpret_cast<Request*>(request); }
inline rlx_request to_handle(Request* request) { return reinterpret_cast<rlx_request>(request); }

// The words for what the checks below refuse; apart, so that the checks cost a message a few
// compares.
tl::unexpected<Error> no_communicator(rlx_comm comm);
Status wrong_dtype(rlx_dtype dtype);
Status wrong_buffer(const char* name, const void* data, std::uint64_t count, rlx_dtype dtype);
Status wrong_rank(const char* name, const Communicator& comm, int rank);

// The communicator of a live handle.
inline Result<Communicator*> communicator(rlx_comm comm) {
  if (g_world != nullptr) [[likely]]
    if (Communicator* found = g_world->find(to_communicator(comm))) [[likely]]
      return found;
  return no_communicator(comm);
}

inline bool is_dtype(rlx_dtype dtype) {
  return static_cast<unsigned>(dtype) < static_cast<unsigned>(kDtypeCount);
}
inline Status check_dtype(rlx_dtype dtype) {
  return is_dtype(dtype) ? Status() : wrong_dtype(dtype);
}

// count elements of dtype fit in 63 bits of bytes, and memory is given if there are any.
inline Status check_buffer(const char* name, const void* data, std::uint64_t count,
                           rlx_dtype dtype) {
  constexpr std::uint64_t kSafe = static_cast<std::uint64_t>(INT64_MAX) / 8;
  if (is_dtype(dtype) && count <= kSafe && (data != nullptr || count == 0)) [[likely]]
    return {};
  return wrong_buffer(name, data, count, dtype);
}

inline Status check_rank(const char* name, const Communicator& comm, int rank) {
  if (static_cast<unsigned>(rank) < static_cast<unsigned>(comm.size())) [[likely]]
    return {};
  return wrong_rank(name, comm, rank);
}

// Runs `body` (Status or Result), so that no exception and no error leaves the C interface but as a
// code.
template <class Body>
int guarded(Body&& body) noexcept {
  try {
    auto result = body();
    return result ? RLX_SUCCESS : report(result.error());
  } catch (const std::bad_alloc&) {
    return report({Code::kNoMemory, "out of memory"});
  } catch (const std::exception& e) {
    return report({Code::kInternal, fmt::format("unexpected exception: {}", e.what())});
  }
}

}  // namespace rlx::api
