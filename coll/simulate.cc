// SPDX-License-Identifier: MIT OR Apache-2.0
#include "coll/simulate.h"

#include <fmt/format.h>

#include <cstring>
#include <list>
#include <random>

#include "coll/area.h"

namespace rlx {
namespace {

constexpr std::uint64_t kRandomBytes = 0xa5;  // noise in memory nobody has written

struct SimMessage {
  int source;
  std::uint64_t tag;
  const void* data;   // of the sender, until it is taken
  std::string bytes;  // taken early (eager)
  std::uint64_t n_bytes;
  Request* sender;  // done when taken; nullptr: eager
};

struct SimReceive {
  int source;
  std::uint64_t tag, mask;
  void* data;
  std::uint64_t room;
  Request* request;
};

struct Mailbox {
  std::list<SimMessage> messages;
  std::list<SimReceive> receives;
};

struct Block {
  std::unique_ptr<std::byte[]> bytes;
  std::uint64_t n_bytes;
  bool pooled;
};

struct SimHost : RequestOwner {
  std::mt19937_64 random;
  std::vector<Mailbox> mailboxes;
  std::vector<std::vector<Block>> blocks;
  std::vector<bool> dead;
  Error death{Code::kPeerFailed, ""};

  void release(Request* request) override { delete request; }
  bool chance(int percent) { return static_cast<int>(random() % 100) < percent; }

  // Matches what has been posted, a little of it; true if anything did.
  bool deliver(int rank) {
    Mailbox& box = mailboxes[rank];
    bool moved = false;
    for (auto receive = box.receives.begin(); receive != box.receives.end();) {
      const auto message =
          std::find_if(box.messages.begin(), box.messages.end(), [&](const SimMessage& m) {
            return (receive->source < 0 || m.source == receive->source) &&
                   ((m.tag ^ receive->tag) & receive->mask) == 0;
          });
      if (message == box.messages.end() || chance(40)) {
        ++receive;
        continue;
      }
      hand_over(*message, *receive);
      box.messages.erase(message);
      receive = box.receives.erase(receive);
      moved = true;
    }
    return moved;
  }

  void hand_over(const SimMessage& message, const SimReceive& receive) {
    Request& got = *receive.request;
    got.source = message.source;
    got.tag = message.tag;
    got.n_bytes = std::min(message.n_bytes, receive.room);
    const void* from = message.sender == nullptr ? message.bytes.data() : message.data;
    if (got.n_bytes > 0) std::memcpy(receive.data, from, got.n_bytes);
    if (message.sender != nullptr) message.sender->finish();
    if (message.n_bytes > receive.room)
      got.finish(Code::kTruncated, "the message is longer than the buffer");
    else
      got.finish();
  }
};

class SimLinks final : public Links {
 public:
  SimLinks(SimHost& host, int rank) : host_(host), rank_(rank) {}

  Request* isend(int to, std::uint64_t tag, const void* data, std::uint64_t n_bytes) override {
    SimMessage message{rank_, tag, data, {}, n_bytes, nullptr};
    if (host_.chance(50)) {
      message.sender = make(Request::Kind::kSend);
    } else {
      message.bytes.assign(static_cast<const char*>(data), n_bytes);
    }
    Request* request = message.sender;
    host_.mailboxes[to].messages.push_back(std::move(message));
    return request;
  }

  Request* irecv(int from, std::uint64_t tag, std::uint64_t mask, void* data,
                 std::uint64_t n_bytes) override {
    Request* request = make(Request::Kind::kRecv);
    host_.mailboxes[rank_].receives.push_back({from, tag, mask, data, n_bytes, request});
    return request;
  }

  bool cancel(Request* request) override {
    auto& receives = host_.mailboxes[rank_].receives;
    const auto at = std::find_if(receives.begin(), receives.end(),
                                 [&](const SimReceive& r) { return r.request == request; });
    if (at == receives.end()) return false;
    receives.erase(at);
    request->finish(Code::kCancelled, "");
    return true;
  }

  bool poll() override { return host_.deliver(rank_); }
  bool crowded() const override { return false; }
  void abandon(Request* message, std::int64_t) override {
    message->finish(Code::kTimeout, "the simulation ended");
  }
  const Error* failed(int rank) override { return host_.dead[rank] ? &host_.death : nullptr; }
  int first_failed() override {
    const auto at = std::find(host_.dead.begin(), host_.dead.end(), true);
    return at == host_.dead.end() ? -1 : static_cast<int>(at - host_.dead.begin());
  }
  std::string host_of(int) override { return "simulated"; }

  void tell(int to, std::uint64_t tag, std::string_view bytes) override {
    host_.mailboxes[to].messages.push_back(
        {rank_, tag, nullptr, std::string(bytes), bytes.size(), nullptr});
  }

  std::optional<Message> take(std::uint64_t tag, std::uint64_t mask) override {
    auto& messages = host_.mailboxes[rank_].messages;
    const auto at = std::find_if(messages.begin(), messages.end(),
                                 [&](const SimMessage& m) { return ((m.tag ^ tag) & mask) == 0; });
    if (at == messages.end()) return std::nullopt;
    Message message{at->source, at->tag, at->bytes};
    messages.erase(at);
    return message;
  }

  bool in_pool(const void* data, std::uint64_t n_bytes) override {
    return find(rank_, reinterpret_cast<std::uint64_t>(data), n_bytes) != nullptr;
  }
  std::byte* pool_pointer(int rank, std::uint64_t address, std::uint64_t n_bytes) override {
    return find(rank, address, n_bytes);
  }
  void ring(std::span<const int>) override {}

  // One thread: waiting is not possible, the simulator calls progress() instead.
  Status until(Turn (*turn)(void* state), void* state, Deadline) override {
    return turn(state) == Turn::kDone ? Status() : fail(Code::kTimeout, "cannot wait here");
  }

 private:
  Request* make(Request::Kind kind) {
    auto* request = new Request;
    request->kind = kind;
    request->owner = &host_;
    return request;
  }

  std::byte* find(int rank, std::uint64_t address, std::uint64_t n_bytes) {
    for (const Block& block : host_.blocks[rank]) {
      const auto first = reinterpret_cast<std::uint64_t>(block.bytes.get());
      if (block.pooled && address >= first && address + n_bytes <= first + block.n_bytes)
        return block.bytes.get() + (address - first);
    }
    return nullptr;
  }

  SimHost& host_;
  int rank_;
};

struct AreaDeleter {
  void operator()(Area* area) const { std::free(area); }
};

}  // namespace

struct Simulator::Impl {
  struct Rank {
    std::unique_ptr<SimLinks> links;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<Collectives> collectives;
    std::vector<Request*> started;
  };

  SimHost host;
  std::vector<std::unique_ptr<Area, AreaDeleter>> areas;
  std::vector<Rank> ranks;

  std::byte* allocate(int rank, std::uint64_t n_bytes, bool pooled) {
    auto& block = host.blocks[rank].emplace_back(
        Block{std::make_unique<std::byte[]>(n_bytes + 1), n_bytes, pooled});
    std::memset(block.bytes.get(), kRandomBytes, n_bytes);
    return block.bytes.get();
  }

  bool all_done() const {
    for (std::size_t r = 0; r < ranks.size(); ++r)
      for (const Request* request : ranks[r].started)
        if (!host.dead[r] && !request->done) return false;
    return true;
  }

  std::string leftovers() const {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const Mailbox& box = host.mailboxes[r];
      if (!box.messages.empty())
        return fmt::format("a message of rank {} to rank {} was never received",
                           box.messages.front().source, r);
      if (!box.receives.empty()) return fmt::format("rank {} still receives", r);
    }
    return {};
  }
};

Simulator::Simulator(int n_ranks, const SimOptions& options) : impl_(std::make_unique<Impl>()) {
  SimHost& host = impl_->host;
  host.random.seed(options.seed);
  host.mailboxes.resize(n_ranks);
  host.blocks.resize(n_ranks);
  host.dead.resize(n_ranks);
  Group group;
  group.name = "simulated";
  group.context = 7;
  for (int r = 0; r < n_ranks; ++r) group.world.push_back(r);
  if (options.one_host) {
    for (int r = 0; r < n_ranks; ++r) {
      // Fresh zero pages are noise enough for staging buffers, and cost nothing until touched.
      impl_->areas.emplace_back(
          static_cast<Area*>(std::aligned_alloc(alignof(Area), sizeof(Area))));
      Area& area = *impl_->areas.back();
      std::memset(static_cast<void*>(&area), 0, offsetof(Area, slot));
      group.areas.push_back(&area);
    }
  }
  const auto rules = parse_rules(options.rules, "rules");
  if (!rules) throw std::invalid_argument(rules.error().text);
  for (int r = 0; r < n_ranks; ++r) {
    group.rank = r;
    Impl::Rank rank;
    rank.links = std::make_unique<SimLinks>(host, r);
    rank.engine = std::make_unique<Engine>(*rank.links);
    Model model = model_of(options.one_host ? "shm" : "tcp", n_ranks, options.cores);
    model.cache_bytes = options.cache_bytes;
    rank.collectives = std::make_unique<Collectives>(*rank.engine, group, Selector(model, *rules));
    impl_->ranks.push_back(std::move(rank));
  }
}

Simulator::~Simulator() = default;

int Simulator::n_ranks() const { return static_cast<int>(impl_->ranks.size()); }
Collectives& Simulator::collectives(int rank) { return *impl_->ranks[rank].collectives; }
std::byte* Simulator::pool_alloc(int rank, std::uint64_t n_bytes) {
  return impl_->allocate(rank, n_bytes, true);
}
std::byte* Simulator::alloc(int rank, std::uint64_t n_bytes) {
  return impl_->allocate(rank, n_bytes, false);
}
void Simulator::free_all() {
  for (auto& blocks : impl_->host.blocks) blocks.clear();
}

void Simulator::start(int rank, const Call& call) {
  impl_->ranks[rank].started.push_back(impl_->ranks[rank].collectives->start(call));
}

void Simulator::kill(int rank) {
  impl_->host.dead[rank] = true;
  impl_->host.death.text = fmt::format("rank {} (simulated) is gone", rank);
}

Status Simulator::run() {
  const int n = n_ranks();
  // Nothing is decided by time here, so a long silence is a standstill.
  const int patience = 200 * n + 2000;
  int quiet = 0;
  while (!impl_->all_done()) {
    const int rank = static_cast<int>(impl_->host.random() % static_cast<unsigned>(n));
    if (impl_->host.dead[rank]) continue;
    quiet = impl_->ranks[rank].engine->progress() ? 0 : quiet + 1;
    if (quiet > patience) return fail(Code::kInternal, "nothing moves any more");
  }
  for (int r = 0; r < n; ++r)
    for (const Request* request : impl_->ranks[r].started)
      if (!impl_->host.dead[r] && request->code != Code::kOk)
        return fail(request->code, fmt::format("rank {}: {}", r, request->text));
  if (const std::string left = impl_->leftovers(); !left.empty())
    return fail(Code::kInternal, left);
  return {};
}

std::vector<Status> Simulator::take_results(int rank) {
  std::vector<Status> results;
  for (Request* request : impl_->ranks[rank].started) {
    results.push_back(request->status());
    if (request->done) request->release();
  }
  impl_->ranks[rank].started.clear();
  return results;
}

}  // namespace rlx
