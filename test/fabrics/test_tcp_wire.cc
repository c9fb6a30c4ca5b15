// SPDX-License-Identifier: MIT OR Apache-2.0
// What is particular to the TCP wire: dialling, port ranges, strangers, ranks that say nonsense.
// Its parts are in test_tcp.cc, several hosts in test_tcp_hosts.cc.
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

#include <random>

#include "fabrics/tcp.h"
#include "test/fabrics/untrusted_tcp.h"
#include "test/fabrics/wire_rank.h"

using namespace rlx;
using namespace rlx::test;
using tcp::SocketAddress;

namespace {

TcpOptions options_of(int rank) {
  TcpOptions options;
  options.rank = rank;
  options.job_id = "test";
  options.host_only = true;
  options.greet_ms = 300;
  return options;
}

std::unique_ptr<TcpWire> wire_of(const TcpOptions& options) {
  auto wire = TcpWire::create(options);
  cr_assert(wire.has_value(), "%s", wire ? "" : wire.error().text.c_str());
  return std::move(*wire);
}

// Makes progress on all of them until done() holds.
bool drive(const std::vector<std::pair<Wire*, Sink*>>& wires, const std::function<bool()>& done,
           int timeout_ms = 10000) {
  const Deadline deadline = Deadline::after_ms(timeout_ms);
  while (!done()) {
    for (const auto& [wire, sink] : wires) wire->progress(*sink);
    if (deadline.passed()) return false;
  }
  return true;
}

// A published address at which nobody listens, for a peer that is `alive` otherwise.
std::string unreachable(const std::string& address) {
  auto published = tcp::decode_published(address).value();
  SocketAddress closed = published.sockets.back();
  { const auto fd = tcp::listen_on(closed = socket_at("127.0.0.1", 0, true), {}, {}); }
  published.sockets = {closed};
  return tcp::encode_published(published);
}

}  // namespace

Test(tcp, two_ranks_that_dial_at_once_settle_on_one_connection, .timeout = 60) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    auto a = wire_of(options_of(0)), b = wire_of(options_of(1));
    TestSink sink_a, sink_b;
    std::vector<std::uint64_t> got_a, got_b;
    sink_a.frame_hook = [&](Link, const FrameView& f) { got_a.push_back(f.tag); };
    sink_b.frame_hook = [&](Link, const FrameView& f) { got_b.push_back(f.tag); };
    // In some rounds one of them cannot reach the other, in some one dials later.
    const unsigned blocked = random() % 4;
    cr_assert(a->connect(1, blocked == 1 ? unreachable(b->address()) : b->address()).has_value());
    cr_assert(b->connect(0, blocked == 2 ? unreachable(a->address()) : a->address()).has_value());
    const unsigned late_a = random() % 8, late_b = random() % 8;
    for (unsigned turn = 0; turn < 8; ++turn) {
      if (turn == late_a)
        for (std::uint64_t i = 0; i < 3; ++i) cr_assert(a->post(1, {.tag = i}) == Posted::kDone);
      if (turn == late_b)
        for (std::uint64_t i = 0; i < 3; ++i) cr_assert(b->post(0, {.tag = i}) == Posted::kDone);
      for (unsigned n = random() % 3; n > 0; --n) a->progress(sink_a);
      for (unsigned n = random() % 3; n > 0; --n) b->progress(sink_b);
    }
    const bool done = drive({{a.get(), &sink_a}, {b.get(), &sink_b}},
                            [&] { return got_a.size() == 3 && got_b.size() == 3; });
    cr_assert(done, "round %d: %zu and %zu frames; %s; %s", round, got_a.size(), got_b.size(),
              sink_a.down[1].c_str(), sink_b.down[0].c_str());
    cr_expect(got_a == std::vector<std::uint64_t>({0, 1, 2}) && got_a == got_b, "round %d", round);
    cr_expect(sink_a.n_down.empty() && sink_b.n_down.empty(), "round %d", round);
  }
}

Test(tcp, a_peer_that_is_not_there_is_an_error_that_names_the_addresses, .timeout = 60) {
  auto a = wire_of(options_of(0)), b = wire_of(options_of(1));
  const std::string nowhere = unreachable(b->address());
  cr_assert(a->connect(1, nowhere).has_value());
  TestSink sink;
  (void)a->post(1, {.tag = 1});
  cr_assert(drive({{a.get(), &sink}}, [&] { return sink.n_down[1] == 1; }));
  const std::string text = sink.down[1];
  const auto address = tcp::to_string(tcp::decode_published(nowhere)->sockets[0]);
  cr_expect(text.find(address + " ") != std::string::npos, "%s", text.c_str());
  cr_expect(text.find("refused") != std::string::npos, "%s", text.c_str());
}

Test(tcp, ports_stay_in_their_range_and_a_full_range_is_an_error) {
  TcpOptions options = options_of(0);
  auto probe = wire_of(options);
  const std::uint16_t free = tcp::decode_published(probe->address())->sockets[0].port;
  probe.reset();
  options.port_range = fmt::format("{}-{}", free, free);
  auto first = wire_of(options);
  cr_expect_eq(tcp::decode_published(first->address())->sockets[0].port, free);
  const auto second = TcpWire::create(options);
  cr_assert(!second.has_value());
  cr_expect(second.error().text.find("RLX_TCP_PORT_RANGE") != std::string::npos);
  options.port_range = "x";
  cr_expect(!TcpWire::create(options));
}

// --- Strangers ---

namespace {

class Stranger {
 public:
  explicit Stranger(const std::string& address) {
    const auto at = tcp::decode_published(address)->sockets.back();
    auto fd = tcp::start_connect(at, {});
    cr_assert(fd.has_value());
    fd_ = std::move(*fd);
    pollfd entry = {fd_.get(), POLLOUT, 0};
    cr_assert(poll(&entry, 1, 5000) == 1 && tcp::so_error(fd_.get()) == 0);
  }
  void say(const void* bytes, std::size_t n) { (void)!::send(fd_.get(), bytes, n, MSG_NOSIGNAL); }
  bool was_dropped() const {
    char byte;
    const ssize_t n = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }
  int fd() const { return fd_.get(); }

 private:
  Fd fd_;
};

// Plays a rank without a wire: all it does on the connection is up to the test.
class HandMadeRank {
 public:
  HandMadeRank() {
    published_.nonce = tcp::random_nonce();
    published_.host = tcp::this_host();
    published_.sockets = {socket_at("127.0.0.1", 9, true)};
  }
  std::string address() const { return tcp::encode_published(published_); }
  // As rank 1 towards rank 0, up to the confirm.
  void greet(Stranger& connection, const std::string& peer, const std::function<void()>& turn) {
    const auto key = tcp::pair_key("test", tcp::decode_published(peer)->nonce, published_.nonce);
    const auto mine = tcp::random_challenge();
    const auto hello = tcp::encode_greeting({tcp::GreetingKind::hello, 1, 0, mine}, {}, key);
    connection.say(hello.data(), hello.size());
    tcp::GreetingBytes welcome;
    const Deadline deadline = Deadline::after_ms(5000);
    while (::recv(connection.fd(), welcome.data(), welcome.size(), MSG_DONTWAIT) !=
           static_cast<ssize_t>(welcome.size())) {
      cr_assert(!deadline.passed(), "no welcome");
      turn();
    }
    tcp::Greeting theirs;
    cr_assert(!tcp::decode_greeting(welcome, theirs) && tcp::is_genuine(welcome, mine, key));
    const auto confirm =
        tcp::encode_greeting({tcp::GreetingKind::confirm, 1, 0, mine}, theirs.challenge, key);
    connection.say(confirm.data(), confirm.size());
  }

 private:
  tcp::Published published_;
};

}  // namespace

Test(tcp, strangers_are_dropped_and_disturb_nobody, .timeout = 60) {
  auto a = wire_of(options_of(0)), b = wire_of(options_of(1));
  TestSink sink_a, sink_b;
  int n_got = 0;
  sink_a.frame_hook = [&](Link, const FrameView&) { ++n_got; };
  cr_assert(a->connect(1, b->address()).has_value() && b->connect(0, a->address()).has_value());
  const std::vector<std::pair<Wire*, Sink*>> both = {{a.get(), &sink_a}, {b.get(), &sink_b}};

  std::vector<std::unique_ptr<Stranger>> strangers;
  const auto stranger = [&](const void* bytes, std::size_t n) {
    strangers.push_back(std::make_unique<Stranger>(a->address()));
    strangers.back()->say(bytes, n);
  };
  const std::string http = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  stranger(http.data(), http.size());
  Bytes garbage(100000);
  std::mt19937 random(4);
  for (auto& byte : garbage) byte = static_cast<unsigned char>(random());
  stranger(garbage.data(), garbage.size());
  tcp::PairKey wrong_key{};
  for (const int from : {1, 0, 77}) {
    const auto forged =
        tcp::encode_greeting({tcp::GreetingKind::hello, from, 0, {}}, {}, wrong_key);
    stranger(forged.data(), forged.size());
    stranger(forged.data(), forged.size() / 2);  // and falls silent
  }
  const auto misled = tcp::encode_greeting({tcp::GreetingKind::hello, 1, 5, {}}, {}, wrong_key);
  stranger(misled.data(), misled.size());
  for (int i = 0; i < 400; ++i) stranger("", 0);  // half open, silent

  for (std::uint64_t i = 0; i < 50; ++i) cr_assert(b->post(0, {.tag = i}) == Posted::kDone);
  cr_assert(drive(both, [&] { return n_got == 50; }), "%d frames, %s", n_got,
            sink_b.down[0].c_str());
  cr_expect(drive(both,
                  [&] {
                    for (const auto& s : strangers)
                      if (!s->was_dropped()) return false;
                    return true;
                  }),
            "somebody was not dropped");
  cr_assert(b->post(0, {.tag = 50}) == Posted::kDone);
  cr_expect(drive(both, [&] { return n_got == 51; }), "the link has suffered");
  cr_expect(sink_a.n_down.empty() && sink_b.n_down.empty());
}

Test(tcp, a_rank_that_says_nonsense_loses_its_link_by_name_and_no_other, .timeout = 60) {
  Bytes frame, corrupt, endless, repeated, torn, bye;
  append_frame(frame, 0, 4, 10);
  corrupt = endless = repeated = torn = bye = frame;
  corrupt.insert(corrupt.end(), 64, 'x');
  append_frame(endless, 1, 0, ~0ull);
  append_frame(repeated, 0, 0, 0);
  append_frame(torn, 1, 0, 1000);
  torn.resize(torn.size() - 500);
  append_frame(bye, 1, 0, 0, tcp::FrameKind::bye);
  const struct {
    const Bytes& said;
    const char* wanted;
  } table[] = {{corrupt, "no frame starts here"},
               {endless, "longer than allowed"},
               {repeated, "lost or repeated"},
               {torn, "closed by the other end"},
               {bye, "left the job in good order"}};
  for (const auto& row : table) {
    auto wire = wire_of(options_of(0));
    TestSink sink;
    int n_got = 0;
    sink.frame_hook = [&](Link from, const FrameView& f) { n_got += from == 1 && f.n_pay == 10; };
    HandMadeRank rank;
    cr_assert(wire->connect(1, rank.address()).has_value());
    {
      Stranger connection(wire->address());
      rank.greet(connection, wire->address(), [&] { wire->progress(sink); });
      connection.say(row.said.data(), row.said.size());
    }
    cr_assert(drive({{wire.get(), &sink}}, [&] { return sink.n_down[1] > 0; }), "%s", row.wanted);
    cr_expect_eq(n_got, 1, "the frame before %s", row.wanted);
    cr_expect(sink.down[1].find(row.wanted) != std::string::npos, "%s", sink.down[1].c_str());
    cr_expect(wire->drained());
  }
}
