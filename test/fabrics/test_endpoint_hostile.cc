// SPDX-License-Identifier: MIT OR Apache-2.0
// A peer that breaks the endpoint's protocol is cut off; it never makes us crash, hold much memory
// or read what is not ours. And one that breaks the layout of shared memory.
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include <cstring>
#include <deque>
#include <random>

#include "fabrics/endpoint_impl.h"
#include "fabrics/shm_area.h"
#include "fabrics/shm_ring.h"

using namespace rlx;

namespace {

// A wire whose peer says whatever the test wants.
class ScriptedWire final : public Wire {
 public:
  struct Said {
    std::uint8_t type;
    std::uint64_t tag;
    std::string ext, pay;
  };
  std::deque<Said> to_say;
  std::uint64_t n_read = 0;

  std::string_view name() const override { return "scripted"; }
  std::string address() const override { return "here"; }
  Status connect(Link, std::string_view) override { return {}; }
  Caps caps(Link) const override {
    return {.max_ext = 32, .max_pay = 4096, .eager_bytes = 8192, .piece_bytes = 0};
  }
  Posted post(Link, const Frame&) override { return Posted::kDone; }
  int progress(Sink& sink) override {
    int n = 0;
    for (; !to_say.empty(); ++n) {
      const Said said = std::move(to_say.front());
      to_say.pop_front();
      sink.on_frame(
          1, {said.type, said.tag, said.ext.data(), static_cast<std::uint32_t>(said.ext.size()),
              said.pay.data(), static_cast<std::uint32_t>(said.pay.size())});
    }
    return n;
  }
  Status read(Link, RemoteSpan from, void* to) override {
    n_read += from.n_bytes;
    std::memset(to, 'r', from.n_bytes);
    return {};
  }
  void withdraw(Link) override {}
  bool arm() override { return true; }
  void disarm() override {}
  int fd() const override { return -1; }
  bool drained() const override { return true; }
};

struct Victim {
  ScriptedWire* wire = nullptr;
  std::unique_ptr<Endpoint> endpoint;

  Victim() {
    BootstrapFacts facts{
        .rank = 0, .size = 2, .source = {}, .job_id = {}, .hostname = "h", .local_ranks = {}};
    auto scripted = std::make_unique<ScriptedWire>();
    wire = scripted.get();
    std::vector<std::unique_ptr<Wire>> wires;
    wires.push_back(std::move(scripted));
    endpoint = Endpoint::create(facts, std::move(wires)).value();
    const std::string blob = endpoint->blob();
    cr_assert(endpoint->connect(0, blob).has_value());
    cr_assert(endpoint->connect(1, blob).has_value());
  }
  void hear(std::uint8_t type, std::uint64_t tag, std::string ext, std::string pay = {}) {
    wire->to_say.push_back({type, tag, std::move(ext), std::move(pay)});
    endpoint->poll();
  }
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

constexpr std::uint64_t kForeign = kSenderNumbered | 5;

}  // namespace

Test(hostile, each_breach_cuts_the_peer_off) {
  struct Breach {
    const char* what;
    void (*commit)(Victim&);
  };
  const Breach breaches[] = {
      {"unknown type", [](Victim& v) { v.hear(99, 1, {}); }},
      {"type 0", [](Victim& v) { v.hear(0, 1, {}); }},
      {"short head", [](Victim& v) { v.hear(kHead, 1, "abc"); }},
      {"huge head",
       [](Victim& v) {
         v.hear(kHead, 1, bytes_of(Head{1ULL << 60, kForeign, 0}));
       }},
      {"head of our numbers",
       [](Victim& v) {
         v.hear(kHead, 1, bytes_of(Head{5000, 5, 0}), "x");
       }},
      {"head with all of its message",
       [](Victim& v) {
         v.hear(kHead, 1, bytes_of(Head{1, kForeign, 0}), "x");
       }},
      {"head twice",
       [](Victim& v) {
         for (int i = 0; i < 2; ++i) v.hear(kHead, 1, bytes_of(Head{5000, kForeign, 0}), "x");
       }},
      {"data without a head", [](Victim& v) { v.hear(kData, kForeign, {}, "x"); }},
      {"too much data",
       [](Victim& v) {
         v.hear(kHead, 1, bytes_of(Head{10, kForeign, 0}), "x");
         v.hear(kData, kForeign, {}, std::string(10, 'x'));
       }},
      {"short request", [](Victim& v) { v.hear(kRequest, 1, "a"); }},
      {"requests without end",
       [](Victim& v) {
         for (std::uint64_t i = 0; i < 100000; ++i) v.hear(kRequest, 1, bytes_of(Head{9, i, 0}));
       }},
      {"messages without end",
       [](Victim& v) {
         for (int i = 0; i < 100000; ++i) v.hear(kEager, 1, {}, "hello");
       }},
      {"long messages without end",
       [](Victim& v) {
         for (std::uint64_t i = 0; i < 100; ++i)
           v.hear(kHead, 1, bytes_of(Head{200000, kSenderNumbered | i, 0}), "x");
       }},
      {"grant of nothing",
       [](Victim& v) {
         v.hear(kGrant, 1, bytes_of(Grant{1, 1}));
       }},
      {"taken nothing", [](Victim& v) { v.hear(kTaken, ~0ULL, {}); }},
      {"grant of too much",
       [](Victim& v) {
         static const std::string data(100000, 'd');
         Request* const send = v.endpoint->isend(1, 1, data.data(), data.size());
         cr_assert(send != nullptr);
         v.hear(kGrant, 1ULL << 32, bytes_of(Grant{data.size() + 1, 1}));
         cr_assert(eq(int, static_cast<int>(send->code), static_cast<int>(Code::kPeerFailed)));
         send->release();
       }},
  };
  for (const Breach& breach : breaches) {
    Victim victim;
    breach.commit(victim);
    const Error* const failed = victim.endpoint->failed(1);
    cr_assert(failed != nullptr, "%s was let through", breach.what);
    cr_assert(failed->text.find("rank 1 (h) is gone: it sent") != std::string::npos, "%s: %s",
              breach.what, failed->text.c_str());
  }
}

Test(hostile, an_offered_address_is_read_only_by_the_wire_and_no_longer_than_asked) {
  Victim victim;
  std::string into(64, 'x');
  Request* const r = victim.endpoint->irecv(1, 1, kWholeTag, into.data(), 16);
  victim.hear(kRequest, 1, bytes_of(Head{~std::uint64_t{0}, 3, 0xdead0000}));
  cr_assert(r->done);
  cr_assert(eq(int, static_cast<int>(r->code), static_cast<int>(Code::kTruncated)));
  cr_assert(eq(u64, victim.wire->n_read, 16));
  cr_assert(eq(str, into, std::string(16, 'r') + std::string(48, 'x')));
}

Test(hostile, random_frames_do_no_harm, .timeout = 60) {
  std::mt19937_64 random(1);
  const auto number = [&]() -> std::uint64_t {
    switch (random() % 5) {
      case 0:
        return random();
      case 1:
        return kSenderNumbered | random() % 4;
      case 2:
        return std::uint64_t{1} << 32 | random() % 4;
      default:
        return random() % 5000;
    }
  };
  static const std::string data(20000, 'd');
  for (int round = 0; round < 300; ++round) {
    Victim victim;
    std::vector<std::string> rooms(8, std::string(3000, 'x'));
    std::vector<Request*> requests;
    for (int i = 0; i < 200 && victim.endpoint->failed(1) == nullptr; ++i) {
      if (random() % 8 == 0 && requests.size() < 8)
        requests.push_back(victim.endpoint->irecv(random() % 2 ? 1 : kAnySource, number(),
                                                  random() % 2 ? 0 : kWholeTag,
                                                  rooms[requests.size()].data(), random() % 3000));
      if (random() % 16 == 0)
        if (Request* r = victim.endpoint->isend(1, 1, data.data(), data.size()))
          requests.push_back(r);
      std::string ext(random() % 3 == 0 ? random() % 32 : sizeof(Head), '\0');
      for (std::size_t at = 0; at + 8 <= ext.size(); at += 8) {
        const std::uint64_t word = number();
        std::memcpy(&ext[at], &word, 8);
      }
      const auto type = static_cast<std::uint8_t>(random() % 16 == 0 ? random() : random() % 8);
      victim.hear(type, number(), ext, std::string(random() % 2000, 'p'));
    }
    for (Request* r : requests)
      if (r->done) r->release();
  }
}

Test(hostile, a_broken_ring_is_noticed_not_followed) {
  constexpr RingShape kShape;
  alignas(128) static std::byte raw[sizeof(RingMemory) + (128 << 10)];
  auto& memory = *reinterpret_cast<RingMemory*>(raw);
  struct Broken {
    const char* what;
    std::uint8_t n_ext;
    std::uint32_t n_pay, body_at;
  };
  const Broken cases[] = {{"ext past the slot", 105, 0, RingSlot::kNoBody},
                          {"body past the slot", 4, 101, RingSlot::kNoBody},
                          {"huge body in the slot", 0, ~0U, RingSlot::kNoBody},
                          {"ext past the slot, with a body", 120, 64, 0},
                          {"body longer than a frame", 0, kShape.max_pay + 1, 0},
                          {"body past the ring", 0, 64, kShape.n_body_bytes - 32},
                          {"body far away", 0, 64, ~0U - 64}};
  for (const Broken& broken : cases) {
    memory.slots[0].place = {0, broken.n_pay, broken.body_at};
    memory.slots[0].word = RingSlot::make_word(0, 1, broken.n_ext, false, 0);
    RingReader reader(&memory, kShape);
    FrameView view;
    cr_assert(reader.look(view) == RingReader::Seen::kBroken, "%s", broken.what);
  }
}

Test(hostile, wrong_addresses_and_blobs_are_refused) {
  for (const char* text :
       {"", "1", "2 h 1 2 3 4 5 6 7 8", "1 h 1 2 3 4", "1 h x 2 3 4 5 6 7 8", "\xff\xff\xff\xff"})
    cr_assert(not(AreaAddress::parse(text).has_value()), "%s", text);
  Victim victim;
  const std::string good = victim.endpoint->blob();
  for (std::size_t n = 0; n < good.size(); ++n) {
    const Status cut = victim.endpoint->connect(1, good.substr(0, n));
    cr_assert(not(cut.has_value()), "the first %zu bytes of a blob were enough", n);
  }
  cr_assert(
      not(victim.endpoint->connect(1, "rlx-endpoint 1\nh\n0\nid\nscripted 99\nhere").has_value()));
}
