// SPDX-License-Identifier: MIT OR Apache-2.0
// Making an endpoint, routing, waiting. The rest is in endpoint_send.cc, endpoint_recv.cc and
// endpoint_failure.cc.
#include "fabrics/endpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "base/knobs.h"
#include "base/log.h"
#include "fabrics/endpoint_impl.h"
#include "fabrics/registry.h"
#include "fabrics/shm.h"

namespace rlx {
namespace {

constexpr std::string_view kBlobHead = "rlx-endpoint 1";

// The blob: lines "head", host, cores, host identity, then "name length\n" and that many bytes
// for each wire.
class BlobReader {
 public:
  explicit BlobReader(std::string_view blob) : rest_(blob) {}

  bool line(std::string_view& out) {
    const std::size_t end = rest_.find('\n');
    if (end == std::string_view::npos) return false;
    out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool wire(std::string_view& name, std::string_view& address) {
    std::string_view head;
    if (!line(head)) return false;
    const std::size_t space = head.find(' ');
    std::size_t length = 0;
    if (space == std::string_view::npos) return false;
    const std::string_view digits = head.substr(space + 1);
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), length);
    if (read.ec != std::errc() || length > rest_.size()) return false;
    name = head.substr(0, space);
    address = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return true;
  }

 private:
  std::string_view rest_;
};

}  // namespace

Endpoint::Impl::Impl(const BootstrapFacts& facts, std::vector<std::unique_ptr<Wire>> the_wires)
    : rank(facts.rank),
      size(facts.size),
      hostname(facts.hostname),
      identity(host_identity()),
      cpus(cpus_of_this_thread()),
      wires(std::move(the_wires)),
      peers(facts.size) {
  for (const auto& wire : wires) {
    spare.push_back(wire.get());
    if (shm == nullptr) shm = dynamic_cast<ShmWire*>(wire.get());
  }
}

Endpoint::Endpoint(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
  impl_->watch->endpoint = this;
}

Endpoint::~Endpoint() {
  const std::lock_guard lock(impl_->watch->mutex);
  impl_->watch->endpoint = nullptr;
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(const BootstrapFacts& facts,
                                                   std::vector<std::unique_ptr<Wire>> wires) {
  auto impl = std::make_unique<Impl>(facts, std::move(wires));
  std::vector<Wire*> watched;
  for (const auto& wire : impl->wires) watched.push_back(wire.get());
  RLX_TRY_ASSIGN(impl->waiter, Waiter::create(std::move(watched), WaitBudget::from_load(1)));
  return std::unique_ptr<Endpoint>(new Endpoint(std::move(impl)));
}

std::string Endpoint::blob() const {
  std::string blob = fmt::format("{}\n{}\n{}\n{}\n", kBlobHead, impl_->hostname, impl_->cpus.text(),
                                 impl_->identity);
  for (const auto& wire : impl_->wires) {
    const std::string address = wire->address();
    blob += fmt::format("{} {}\n{}", wire->name(), address.size(), address);
  }
  return blob;
}

Status Endpoint::connect(int rank, std::string_view blob) {
  std::string_view head, host, cores, identity;
  BlobReader reader(blob);
  if (!reader.line(head) || head != kBlobHead || !reader.line(host) || !reader.line(cores) ||
      !reader.line(identity))
    return fail(Code::kInvalid, fmt::format("rank {} told an address of another version or none; "
                                            "all ranks must use the same rlx",
                                            rank));
  PeerState& peer = impl_->peers[rank];
  peer.host = host;
  std::vector<std::pair<std::string_view, std::string_view>> addresses;
  for (std::string_view name, address; reader.wire(name, address);)
    addresses.emplace_back(name, address);
  std::string reasons;
  for (const auto& wire : impl_->wires) {
    const auto theirs = std::find_if(addresses.begin(), addresses.end(),
                                     [&](const auto& a) { return a.first == wire->name(); });
    const Status reached = theirs == addresses.end()
                               ? fail(Code::kUnreachable, "it does not use this fabric")
                               : wire->connect(rank, theirs->second);
    if (!reached) {
      reasons += fmt::format("\n  {}: {}", wire->name(), reached.error().text);
      continue;
    }
    impl_->open_peer(rank, wire.get());
    if (identity == impl_->identity) impl_->count_local(cores);
    return {};
  }
  return fail(Code::kUnreachable,
              fmt::format("no fabric reaches {}:{}", impl_->who(rank), reasons));
}

void Endpoint::Impl::open_peer(int of, Wire* wire) {
  PeerState& peer = peers[of];
  peer.wire = wire;
  peer.caps = wire->caps(of);
  peer.single_bytes = std::min(peer.caps.max_pay, peer.caps.eager_bytes);
  if (peer.caps.piece_bytes != 0)
    peer.single_bytes = std::min<std::int64_t>(peer.single_bytes, peer.caps.piece_bytes);
  use(wire);
}

void Endpoint::Impl::use(Wire* wire) {
  if (std::erase(spare, wire) != 0) polled.push_back(wire);
}

// Another rank of this host, ourselves included: do we all have a core?
void Endpoint::Impl::count_local(std::string_view cores) {
  const Result<CpuSet> theirs = CpuSet::parse(cores);
  if (!theirs) return;
  ++n_local;
  host_cpus = host_cpus | *theirs;
  load += ranks_per_core(cpus, std::span(&*theirs, 1));
  const double by_time = quota > 0 ? n_local / quota : 0;
  const WaitBudget budget = WaitBudget::from_load(std::max(load, by_time));
  waiter->set_budget(budget);
  if (shm != nullptr) shm->set_crowded(budget.is_crowded());
  crowded = budget.is_crowded();
}

int Endpoint::rank() const { return impl_->rank; }
int Endpoint::size() const { return impl_->size; }
const std::string& Endpoint::host_of(int rank) const { return impl_->peers[rank].host; }
bool Endpoint::crowded() const { return impl_->crowded; }
int Endpoint::host_cores() const { return std::max(1, static_cast<int>(impl_->host_cpus.count())); }

std::string_view Endpoint::wire_of(int rank) const {
  const Wire* const wire = impl_->peers[rank].wire;
  return wire ? wire->name() : std::string_view("none");
}
ShmWire* Endpoint::shm() { return impl_->shm; }

Request* Endpoint::isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes) {
  return impl_->isend(to, tag, data, n_bytes);
}
Request* Endpoint::irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                         std::uint64_t n_bytes) {
  return impl_->irecv(from, tag, mask, data, n_bytes);
}
std::optional<Envelope> Endpoint::iprobe(int from, std::uint64_t tag, std::uint64_t mask) const {
  return impl_->iprobe(from, tag, mask);
}
const Error* Endpoint::why_none_comes(int from, std::uint64_t tag) const {
  return impl_->why_none_comes(from, tag);
}
bool Endpoint::cancel(Request* request) { return impl_->cancel(request); }
void Endpoint::abandon(Request* request, std::int64_t after_ms) {
  impl_->abandon(request, after_ms);
}
void Endpoint::release(Request* request) { request->release(); }
bool Endpoint::poll() { return impl_->poll(); }
Waiter& Endpoint::waiter() { return *impl_->waiter; }
void Endpoint::check() { impl_->check(); }

Status Endpoint::wait(Request* request, Deadline deadline) {
  const Status waited = until(
      [&] {
        if (request->done) return Turn::kDone;
        const bool moved = impl_->poll();
        if (request->done) return Turn::kDone;
        return moved ? Turn::kMoved : Turn::kIdle;
      },
      deadline);
  if (!waited) return fail(waited.error().code, impl_->describe(request));
  return request->status();
}

Status Endpoint::flush(Deadline deadline) {
  deadline = deadline.started();
  const Status flushed = until(
      [&] {
        const bool moved = impl_->poll();
        const bool sent =
            impl_->all_left() && std::all_of(impl_->wires.begin(), impl_->wires.end(),
                                             [](const auto& wire) { return wire->drained(); });
        return sent ? Turn::kDone : moved ? Turn::kMoved : Turn::kIdle;
      },
      deadline);
  if (flushed || flushed.error().code != Code::kTimeout) return flushed;
  return fail(Code::kTimeout,
              fmt::format("after {} ms: {}", deadline.limit_ms(), impl_->describe_unsent()));
}

const Error* Endpoint::failed(int rank) const { return impl_->peers[rank].failed.get(); }
int Endpoint::first_failed() const { return impl_->first_failed; }

void Endpoint::report_failure(int rank, std::string cause) {
  {
    const std::lock_guard lock(impl_->reports_mutex);
    // -1: the source of all news is gone, and with it the job.
    for (int r = 0; r < impl_->size; ++r)
      if (r == rank || (rank < 0 && r != impl_->rank)) impl_->reports.emplace_back(r, cause);
    impl_->reported.store(true);
  }
  impl_->waiter->wake();
}

void Endpoint::set_group(std::uint32_t context, std::vector<int> ranks) {
  impl_->groups[context] = std::move(ranks);
}
void Endpoint::clear_group(std::uint32_t context) { impl_->groups.erase(context); }
int Endpoint::n_in_use(std::uint32_t context) { return impl_->n_in_use(context); }
std::vector<Pending> Endpoint::pending() const { return impl_->pending(); }
std::string Endpoint::describe(const Request* request) const { return impl_->describe(request); }

Result<std::unique_ptr<Endpoint>> open_endpoint(Bootstrap& bootstrap, Deadline deadline) {
  return open_endpoint(bootstrap, deadline, knobs().fabrics);
}

Result<std::unique_ptr<Endpoint>> open_endpoint(Bootstrap& bootstrap, Deadline deadline,
                                                std::string_view fabrics) {
  const BootstrapFacts& facts = bootstrap.facts();
  RLX_TRY_ASSIGN(auto wires, make_wires(fabrics, facts));
  RLX_TRY_ASSIGN(auto endpoint, Endpoint::create(facts, std::move(wires)));
  bootstrap.watch([watch = endpoint->impl_->watch](int failed_rank, std::string cause) {
    const std::lock_guard lock(watch->mutex);
    if (watch->endpoint != nullptr) watch->endpoint->report_failure(failed_rank, std::move(cause));
  });
  RLX_TRY(bootstrap.put(endpoint->blob()));
  RLX_TRY(bootstrap.fence(deadline));
  for (int r = 0; r < facts.size; ++r) {
    RLX_TRY_ASSIGN(const std::string blob, bootstrap.get(r));
    RLX_TRY(endpoint->connect(r, blob));
  }
  endpoint->impl_->tell_failure = [&bootstrap](int failed_rank, const std::string& cause) {
    bootstrap.peer_failed(failed_rank, cause);
  };
  endpoint->impl_->last_word_on = [&bootstrap](int lost_rank) {
    return bootstrap.last_word_on(lost_rank);
  };
  return endpoint;
}

}  // namespace rlx
