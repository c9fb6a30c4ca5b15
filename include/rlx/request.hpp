// SPDX-License-Identifier: MIT OR Apache-2.0
// Requests and their statuses in the C++ face; include <rlx/rlx.hpp>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <rlx/types.hpp>
#include <span>
#include <utility>
#include <vector>

namespace rlx {
inline namespace face {

// --- Requests -----------------------------------------------------------------------------------

struct Status {
  int source = RLX_ANY_SOURCE;  // rank in the communicator
  int tag = RLX_ANY_TAG;
  rlx_error error = RLX_SUCCESS;
  bool cancelled = false;
  std::uint64_t n_bytes = 0;  // received

  Status() = default;
  explicit Status(const rlx_status& s)
      : source(s.source),
        tag(s.tag),
        error(static_cast<rlx_error>(s.error)),
        cancelled(s.cancelled != 0),
        n_bytes(s.n_bytes) {}
  // Elements of T received; a rest is not counted.
  template <Element T>
  std::uint64_t count() const noexcept {
    return n_bytes / sizeof(T);
  }
};

// An operation under way. Move-only; its destructor waits, because the library still owns the
// buffers, and drops the operation's error: call wait() to see it. Where an exception ends its
// scope it cancels first, so that a receive that has not matched holds up nobody.
class Request {
 public:
  Request() = default;  // completed
  explicit Request(rlx_request handle) noexcept : handle_(handle) {}
  Request(Request&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;
  ~Request() {
    if (handle_ == nullptr || rlx_initialized() == 0) return;
    if (std::uncaught_exceptions() > 0) (void)rlx_cancel(handle_);
    (void)rlx_wait(&handle_, nullptr);
  }

  bool done() const noexcept { return handle_ == nullptr; }  // as of the last wait or test
  Status wait() {
    rlx_status status{};
    check(rlx_wait(&handle_, &status));
    return Status(status);
  }
  // The status once complete, nothing before.
  std::optional<Status> test() {
    rlx_status status{};
    int done = 0;
    check(rlx_test(&handle_, &done, &status));
    return done != 0 ? std::optional(Status(status)) : std::nullopt;
  }
  // Receives only: one that has not matched yet completes with RLX_ERR_CANCELLED.
  void cancel() { check(rlx_cancel(handle_)); }
  rlx_request& handle() noexcept { return handle_; }

 private:
  rlx_request handle_ = nullptr;
};

struct Completed {
  std::size_t index = 0;  // in the span given
  Status status;
};

namespace detail {
// Gives `call` the handles of `requests` as the array that rlx.h wants, and takes back what it
// left.
template <class Call>
void with_handles(std::span<Request> requests, Call call) {
  std::vector<rlx_request> handles;
  handles.reserve(requests.size());
  for (auto& request : requests) handles.push_back(request.handle());
  const int code = call(static_cast<int>(handles.size()), handles.data());
  for (std::size_t i = 0; i < handles.size(); ++i) requests[i].handle() = handles[i];
  check(code);
}

inline std::vector<Status> statuses(const std::vector<rlx_status>& from) {
  return {from.begin(), from.end()};
}
using SomeCall = int (*)(int, rlx_request*, int*, int*, rlx_status*);
inline std::vector<Completed> some(std::span<Request> requests, SomeCall call) {
  std::vector<int> indices(requests.size());
  std::vector<rlx_status> raw(requests.size());
  int n_done = 0;
  with_handles(requests, [&](int n, rlx_request* handles) {
    return call(n, handles, &n_done, indices.data(), raw.data());
  });
  std::vector<Completed> completed;
  for (int i = 0; i < n_done; ++i) {
    completed.push_back({static_cast<std::size_t>(indices[i]), Status(raw[i])});
  }
  return completed;
}
}  // namespace detail

// Waits for each; throws the first error after all completed.
inline std::vector<Status> wait_all(std::span<Request> requests) {
  std::vector<rlx_status> raw(requests.size());
  detail::with_handles(requests,
                       [&](int n, rlx_request* h) { return rlx_wait_all(n, h, raw.data()); });
  return detail::statuses(raw);
}
// All statuses if all are complete, else nothing.
inline std::optional<std::vector<Status>> test_all(std::span<Request> requests) {
  std::vector<rlx_status> raw(requests.size());
  int done = 0;
  detail::with_handles(
      requests, [&](int n, rlx_request* h) { return rlx_test_all(n, h, &done, raw.data()); });
  if (done == 0) return std::nullopt;
  return detail::statuses(raw);
}
// One that completed; nothing if all had completed before.
inline std::optional<Completed> wait_any(std::span<Request> requests) {
  rlx_status raw{};
  int index = RLX_UNDEFINED;
  detail::with_handles(requests,
                       [&](int n, rlx_request* h) { return rlx_wait_any(n, h, &index, &raw); });
  if (index == RLX_UNDEFINED) return std::nullopt;
  return Completed{static_cast<std::size_t>(index), Status(raw)};
}
// One that completed; nothing if none is complete yet or all had completed before.
inline std::optional<Completed> test_any(std::span<Request> requests) {
  rlx_status raw{};
  int index = RLX_UNDEFINED;
  int done = 0;
  detail::with_handles(
      requests, [&](int n, rlx_request* h) { return rlx_test_any(n, h, &index, &done, &raw); });
  if (done == 0 || index == RLX_UNDEFINED) return std::nullopt;
  return Completed{static_cast<std::size_t>(index), Status(raw)};
}
// At least one; empty only if all had completed before.
inline std::vector<Completed> wait_some(std::span<Request> requests) {
  return detail::some(requests, rlx_wait_some);
}
inline std::vector<Completed> test_some(std::span<Request> requests) {
  return detail::some(requests, rlx_test_some);
}

}  // namespace face
}  // namespace rlx
