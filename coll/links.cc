// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/links.h"

#include <list>

#include "fabrics/endpoint.h"
#include "fabrics/shm.h"

namespace rlx {
namespace {

class EndpointLinks final : public Links {
 public:
  explicit EndpointLinks(Endpoint& endpoint) : endpoint_(endpoint), shm_(endpoint.shm()) {}

  Request* isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes) override {
    return endpoint_.isend(to, tag, data, n_bytes);
  }
  Request* irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                 std::uint64_t n_bytes) override {
    return endpoint_.irecv(from, tag, mask, data, n_bytes);
  }
  bool cancel(Request* request) override { return endpoint_.cancel(request); }
  bool poll() override { return endpoint_.poll(); }
  bool crowded() const override { return endpoint_.crowded(); }
  void abandon(Request* message, std::int64_t after_ms) override {
    endpoint_.abandon(message, after_ms);
  }
  const Error* failed(int rank) override { return endpoint_.failed(rank); }
  int first_failed() override { return endpoint_.first_failed(); }
  std::string host_of(int rank) override { return endpoint_.host_of(rank); }

  void tell(int to, std::uint64_t tag, std::string_view bytes) override {
    told_.remove_if([](Told& told) {
      if (told.request->done) told.request->release();
      return told.request->done;
    });
    Told& told = told_.emplace_back(Told{std::string(bytes), nullptr});
    told.request = endpoint_.isend(to, tag, told.bytes.data(), told.bytes.size());
    if (told.request == nullptr) told_.pop_back();
  }

  std::optional<Message> take(std::uint64_t tag, std::uint64_t mask) override {
    const auto envelope = endpoint_.iprobe(kAnySource, tag, mask);
    if (!envelope || envelope->n_bytes > kLongestTold) return std::nullopt;
    Message message{envelope->source, envelope->tag, std::string(envelope->n_bytes, '\0')};
    Request* request = endpoint_.irecv(message.source, message.tag, kWholeTag, message.bytes.data(),
                                       message.bytes.size());
    while (!request->done) endpoint_.poll();
    const bool arrived = request->code == Code::kOk;
    request->release();
    if (!arrived) return std::nullopt;
    return message;
  }

  bool in_pool(const void* data, std::uint64_t n_bytes) override {
    return shm_ != nullptr && shm_->in_pool(data, n_bytes);
  }
  std::byte* pool_pointer(int rank, std::uint64_t address, std::uint64_t n_bytes) override {
    return shm_ == nullptr ? nullptr : shm_->pool_pointer(rank, {address, n_bytes});
  }
  void ring(std::span<const int> ranks) override { shm_->ring(ranks); }

  Status until(Turn (*turn)(void* state), void* state, Deadline deadline) override {
    return endpoint_.until([turn, state] { return turn(state); }, deadline);
  }

 private:
  struct Told {
    std::string bytes;
    Request* request;
  };

  Endpoint& endpoint_;
  ShmWire* shm_;
  std::list<Told> told_;  // not on their way yet
};

}  // namespace

std::unique_ptr<Links> make_links(Endpoint& endpoint) {
  return std::make_unique<EndpointLinks>(endpoint);
}

}  // namespace rlx
