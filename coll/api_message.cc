// SPDX-License-Identifier: MIT OR Apache-2.0
// The C interface: point to point and requests.
#include <algorithm>
#include <climits>

#include "coll/api.h"

namespace rlx::api {
namespace {

// A message's matching word and the peer's rank in the world.
struct Address {
  int world_rank;
  std::uint64_t tag, mask;
};

Result<Address> sending_to(const Communicator& comm, int dest, int tag) {
  RLX_TRY(check_rank("dest", comm, dest));
  if (tag < 0)
    return fail(Code::kInvalid, fmt::format("tag {} is negative; 0..{}", tag, RLX_TAG_MAX));
  return Address{comm.to_world(dest), make_tag(comm.context(), static_cast<std::uint32_t>(tag)),
                 kWholeTag};
}

Result<Address> receiving_from(const Communicator& comm, int source, int tag) {
  Address address{kAnySource, make_tag(comm.context(), 0), kAnyUserTag};
  if (source != RLX_ANY_SOURCE) {
    RLX_TRY(check_rank("source", comm, source));
    address.world_rank = comm.to_world(source);
  }
  if (tag == RLX_ANY_TAG) return address;
  if (tag < 0)
    return fail(Code::kInvalid,
                fmt::format("tag {} is negative; 0..{} or RLX_ANY_TAG", tag, RLX_TAG_MAX));
  address.tag = make_tag(comm.context(), static_cast<std::uint32_t>(tag));
  address.mask = kWholeTag;
  return address;
}

void set_status(rlx_status* status, const Communicator* comm, int world_source, std::uint64_t tag,
                std::uint64_t n_bytes) {
  if (!status) return;
  *status = {comm ? comm->from_world(world_source) : RLX_UNDEFINED,
             static_cast<std::int32_t>(tag & INT_MAX), RLX_SUCCESS, 0, n_bytes};
}

void set_empty(rlx_status* status) {
  if (status) *status = {RLX_UNDEFINED, RLX_ANY_TAG, RLX_SUCCESS, 0, 0};
}

Communicator* owner_of(const Request& request) {
  return g_world->of_context(static_cast<std::uint32_t>(request.tag >> 32));
}

// Gives back a request that is done: its status, and its error if it has one.
Status complete(rlx_request& handle, rlx_status* status) {
  Request* const request = to_request(std::exchange(handle, nullptr));
  if (status) {
    set_empty(status);
    if (request->kind == Request::Kind::kRecv && request->code != Code::kCancelled)
      set_status(status, owner_of(*request), request->source, request->tag, request->n_bytes);
    status->error = static_cast<std::int32_t>(request->code);
    status->cancelled = request->cancelled;
  }
  Status result = request->status();
  request->release();
  return result;
}

Result<Request*> start_send(const void* data, std::uint64_t count, rlx_dtype dtype, int dest,
                            int tag, rlx_comm comm) {
  RLX_TRY_ASSIGN(const Communicator* const found, communicator(comm));
  RLX_TRY(check_buffer("data", data, count, dtype));
  RLX_TRY_ASSIGN(const Address to, sending_to(*found, dest, tag));
  return g_world->endpoint().isend(to.world_rank, to.tag, data,
                                   count * size_of(static_cast<Dtype>(dtype)));
}

Result<Request*> start_recv(void* data, std::uint64_t count, rlx_dtype dtype, int source, int tag,
                            rlx_comm comm) {
  RLX_TRY_ASSIGN(const Communicator* const found, communicator(comm));
  RLX_TRY(check_buffer("data", data, count, dtype));
  RLX_TRY_ASSIGN(const Address from, receiving_from(*found, source, tag));
  return g_world->endpoint().irecv(from.world_rank, from.tag, from.mask, data,
                                   count * size_of(static_cast<Dtype>(dtype)));
}

// As Engine::until with the usual deadline; `state` says what was missing if it passes.
template <class Ready>
Status wait_until(Ready&& ready, const std::string& state) {
  const Deadline deadline = World::deadline();
  const Status waited = g_world->engine().until(ready, deadline);
  if (waited || waited.error().code != Code::kTimeout) return waited;
  return fail(Code::kTimeout, fmt::format("after {} ms: {}", deadline.limit_ms(), state));
}

// Waits for one request; afterwards it is complete, whatever came out.
Status finish(Request* request, rlx_status* status) {
  rlx_request handle = to_handle(request);
  if (!request) {
    set_empty(status);
    return {};
  }
  if (!request->done) {
    const Status waited = g_world->engine().wait(request, World::deadline());
    if (!waited && !request->done) return waited;
  }
  return complete(handle, status);
}

Status start_into(rlx_request* out, const Result<Request*>& started) {
  if (!started) return tl::unexpected<Error>(started.error());
  *out = to_handle(*started);
  return {};
}

Status check_out(const void* pointer, const char* name) {
  if (pointer) return {};
  return fail(Code::kInvalid, fmt::format("{} is NULL", name));
}

Status check_requests(int n, const rlx_request* requests) {
  RLX_TRY(initialized());
  if (n < 0) return fail(Code::kInvalid, fmt::format("the number of requests is {}", n));
  return n == 0 ? Status() : check_out(requests, "requests");
}

Status check_request(const rlx_request* request) {
  RLX_TRY(initialized());
  return check_out(request, "request");
}

bool is_done(rlx_request request) { return !request || to_request(request)->done; }

// Completes the requests that are done. Of those, the first error is the result.
Status collect(int n, rlx_request* requests, int* n_done, int* indices, rlx_status* statuses,
               int at_most) {
  Status first;
  *n_done = 0;
  for (int i = 0; i < n && *n_done < at_most; ++i) {
    if (!requests[i] || !is_done(requests[i])) continue;
    const Status status = complete(requests[i], statuses ? statuses + *n_done : nullptr);
    if (!status && first) first = status;
    indices[(*n_done)++] = i;
  }
  return first;
}

bool all_null(int n, const rlx_request* requests) {
  return std::all_of(requests, requests + n, [](rlx_request r) { return r == nullptr; });
}

// One or more of the requests, waiting for the first if `block`.
Status some(int n, rlx_request* requests, int* n_done, int* indices, rlx_status* statuses,
            int at_most, bool block) {
  RLX_TRY(check_requests(n, requests));
  if (all_null(n, requests)) {
    *n_done = RLX_UNDEFINED;
    return {};
  }
  const auto one_done = [&] {
    return std::any_of(requests, requests + n, [](rlx_request r) { return r && is_done(r); });
  };
  if (!block)
    g_world->engine().progress();
  else
    RLX_TRY(wait_until(one_done, fmt::format("none of {} requests has completed", n)));
  return collect(n, requests, n_done, indices, statuses, at_most);
}

Status any(int n, rlx_request* requests, int* index, int* done, rlx_status* status, bool block) {
  RLX_TRY(check_out(index, "index"));
  int n_done = 0;
  *index = RLX_UNDEFINED;
  set_empty(status);
  const Status result = some(n, requests, &n_done, index, status, 1, block);
  if (done) *done = n_done != 0;  // all NULL counts as done
  return result;
}

Status complete_all(int n, rlx_request* requests, rlx_status* statuses) {
  Status first;
  for (int i = 0; i < n; ++i) {
    rlx_status* const status = statuses ? statuses + i : nullptr;
    if (!requests[i]) {
      set_empty(status);
      continue;
    }
    const Status result = complete(requests[i], status);
    if (!result && first) first = result;
  }
  return first;
}

Status probe(int source, int tag, rlx_comm comm, int* flag, rlx_status* status, bool block) {
  RLX_TRY_ASSIGN(const Communicator* const found, communicator(comm));
  RLX_TRY_ASSIGN(const Address from, receiving_from(*found, source, tag));
  auto& endpoint = g_world->endpoint();
  std::optional<Envelope> envelope;
  const Error* failure = nullptr;
  const auto look = [&] {
    envelope = endpoint.iprobe(from.world_rank, from.tag, from.mask);
    if (!envelope) failure = endpoint.why_none_comes(from.world_rank, from.tag);
    return envelope || failure != nullptr;
  };
  if (!block) {
    g_world->engine().progress();
    look();
  } else {
    RLX_TRY(wait_until(
        look, fmt::format("probe: no message from {} has arrived",
                          source == RLX_ANY_SOURCE ? "any rank" : fmt::format("rank {}", source))));
  }
  if (failure != nullptr) return fail(failure->code, failure->text);
  if (flag) *flag = envelope.has_value();
  if (envelope) set_status(status, found, envelope->source, envelope->tag, envelope->n_bytes);
  return {};
}

}  // namespace
}  // namespace rlx::api

using namespace rlx;
using namespace rlx::api;

extern "C" {

int rlx_send(const void* data, uint64_t count, rlx_dtype dtype, int dest, int tag, rlx_comm comm) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(Request* const request, start_send(data, count, dtype, dest, tag, comm));
    return finish(request, nullptr);
  });
}

int rlx_recv(void* data, uint64_t count, rlx_dtype dtype, int source, int tag, rlx_comm comm,
             rlx_status* status) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(Request* const request, start_recv(data, count, dtype, source, tag, comm));
    return finish(request, status);
  });
}

int rlx_isend(const void* data, uint64_t count, rlx_dtype dtype, int dest, int tag, rlx_comm comm,
              rlx_request* request) {
  return guarded([&]() -> Status {
    RLX_TRY(check_out(request, "request"));
    return start_into(request, start_send(data, count, dtype, dest, tag, comm));
  });
}

int rlx_irecv(void* data, uint64_t count, rlx_dtype dtype, int source, int tag, rlx_comm comm,
              rlx_request* request) {
  return guarded([&]() -> Status {
    RLX_TRY(check_out(request, "request"));
    return start_into(request, start_recv(data, count, dtype, source, tag, comm));
  });
}

int rlx_sendrecv(const void* send_data, uint64_t send_count, rlx_dtype send_dtype, int dest,
                 int send_tag, void* recv_data, uint64_t recv_count, rlx_dtype recv_dtype,
                 int source, int recv_tag, rlx_comm comm, rlx_status* status) {
  return guarded([&]() -> Status {
    RLX_TRY_ASSIGN(Request* const receive,
                   start_recv(recv_data, recv_count, recv_dtype, source, recv_tag, comm));
    const auto send = start_send(send_data, send_count, send_dtype, dest, send_tag, comm);
    if (!send) {
      if (!g_world->endpoint().cancel(receive)) return finish(receive, status);
      receive->release();
      return tl::unexpected<Error>(send.error());
    }
    const Status received = finish(receive, status);
    const Status sent = finish(*send, nullptr);
    return received ? sent : received;
  });
}

int rlx_probe(int source, int tag, rlx_comm comm, rlx_status* status) {
  return guarded([&] { return probe(source, tag, comm, nullptr, status, true); });
}

int rlx_iprobe(int source, int tag, rlx_comm comm, int* flag, rlx_status* status) {
  return guarded([&]() -> Status {
    RLX_TRY(check_out(flag, "flag"));
    return probe(source, tag, comm, flag, status, false);
  });
}

int rlx_wait(rlx_request* request, rlx_status* status) {
  return guarded([&]() -> Status {
    RLX_TRY(check_request(request));
    return finish(to_request(std::exchange(*request, nullptr)), status);
  });
}

int rlx_test(rlx_request* request, int* done, rlx_status* status) {
  return guarded([&]() -> Status {
    RLX_TRY(check_request(request));
    RLX_TRY(check_out(done, "done"));
    if (!is_done(*request)) g_world->engine().progress();
    *done = is_done(*request);
    if (!*done) return {};
    return complete_all(1, request, status);
  });
}

int rlx_wait_all(int n, rlx_request* requests, rlx_status* statuses) {
  return guarded([&]() -> Status {
    RLX_TRY(check_requests(n, requests));
    Status first;
    const Deadline deadline = World::deadline().started();
    for (int i = 0; i < n; ++i) {
      if (!requests[i]) continue;
      const Status waited = g_world->engine().wait(to_request(requests[i]), deadline);
      if (!waited && first) first = waited;
    }
    const Status completed = complete_all(n, requests, statuses);
    return first ? completed : first;
  });
}

int rlx_test_all(int n, rlx_request* requests, int* done, rlx_status* statuses) {
  return guarded([&]() -> Status {
    RLX_TRY(check_requests(n, requests));
    RLX_TRY(check_out(done, "done"));
    g_world->engine().progress();
    *done = std::all_of(requests, requests + n, is_done);
    return *done ? complete_all(n, requests, statuses) : Status();
  });
}

int rlx_wait_any(int n, rlx_request* requests, int* index, rlx_status* status) {
  return guarded([&] { return any(n, requests, index, nullptr, status, true); });
}

int rlx_test_any(int n, rlx_request* requests, int* index, int* done, rlx_status* status) {
  return guarded([&]() -> Status {
    RLX_TRY(check_out(done, "done"));
    return any(n, requests, index, done, status, false);
  });
}

int rlx_wait_some(int n, rlx_request* requests, int* n_done, int* indices, rlx_status* statuses) {
  return guarded([&]() -> Status {
    RLX_TRY(check_out(n_done, "n_done"));
    RLX_TRY(check_out(indices, "indices"));
    return some(n, requests, n_done, indices, statuses, n, true);
  });
}

int rlx_test_some(int n, rlx_request* requests, int* n_done, int* indices, rlx_status* statuses) {
  return guarded([&]() -> Status {
    RLX_TRY(check_out(n_done, "n_done"));
    RLX_TRY(check_out(indices, "indices"));
    return some(n, requests, n_done, indices, statuses, n, false);
  });
}

int rlx_cancel(rlx_request request) {
  return guarded([&]() -> Status {
    RLX_TRY(initialized());
    if (!request) return {};
    if (to_request(request)->kind != Request::Kind::kRecv)
      return fail(Code::kInvalid, "rlx_cancel: only receives can be cancelled");
    // Too late is no error: the receive then completes as if nothing had happened.
    (void)g_world->endpoint().cancel(to_request(request));
    return {};
  });
}

int rlx_progress(void) {
  return guarded([&]() -> Status {
    RLX_TRY(initialized());
    g_world->engine().progress();
    return {};
  });
}

}  // extern "C"
