// SPDX-License-Identifier: MIT OR Apache-2.0
// What is particular to TCP: formats, addresses, strangers, dialling. What every wire promises is
// in test_wire_conformance.cc, several hosts in test_tcp_hosts.cc.
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
using tcp::Interface;
using tcp::SocketAddress;

namespace {

// --- Formats ---

void append_frame(Bytes& out, std::uint32_t serial, std::uint16_t n_ext, std::uint64_t n_pay,
                  tcp::FrameKind kind = tcp::FrameKind::data) {
  unsigned char header[tcp::kFrameHeaderBytes];
  tcp::encode_frame_header(
      {.kind = kind, .type = 7, .n_ext = n_ext, .tag = serial, .n_pay = n_pay, .serial = serial},
      header);
  out.insert(out.end(), header, header + sizeof header);
  out.insert(out.end(), n_ext + std::min<std::uint64_t>(n_pay, tcp::kMaxPay), 'p');
}

SocketAddress socket_at(const char* ip, std::uint16_t port, bool host_local = false) {
  return {parse_ip(ip).value(), port, host_local};
}

Interface interface_at(const char* name, const char* ip, int bits, Interface::Kind kind,
                       int speed = 0) {
  return {name, socket_at(ip, 0).ip, bits, kind, speed};
}

std::string names(const std::vector<Interface>& interfaces) {
  std::string text;
  for (const auto& i : interfaces) text += i.name + " ";
  return text;
}

}  // namespace

Test(tcp, refuses_every_header_that_is_not_the_next_one) {
  Bytes good;
  append_frame(good, 5, 16, 1000);
  tcp::FrameHeader header;
  cr_assert(!tcp::decode_frame_header(good.data(), 5, header));
  cr_expect(header.n_ext == 16 && header.n_pay == 1000 && header.tag == 5 && header.type == 7);
  cr_expect(tcp::decode_frame_header(good.data(), 6, header) != nullptr);
  for (std::size_t bit = 0; bit < 8 * tcp::kFrameHeaderBytes; ++bit) {
    Bytes bad = good;
    bad[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    cr_expect(tcp::decode_frame_header(bad.data(), 5, header) != nullptr, "bit %zu", bit);
  }
  const struct {
    std::uint16_t n_ext;
    std::uint64_t n_pay;
  } lengths[] = {{tcp::kMaxExt + 1, 0}, {0, tcp::kMaxPay + 1ull}, {0xffff, ~0ull}, {0, 1ull << 32}};
  for (const auto& row : lengths) {
    Bytes bad;
    append_frame(bad, 0, row.n_ext, row.n_pay);
    cr_expect(tcp::decode_frame_header(bad.data(), 0, header) != nullptr, "%u %lu", row.n_ext,
              row.n_pay);
  }
}

Test(tcp, reads_streams_in_any_pieces_and_stops_at_the_first_wrong_byte, .timeout = 60) {
  Bytes good;
  std::vector<std::size_t> ends;
  for (const std::uint32_t n_pay : {0u, 1u, 100u, 5000u, 70000u, 300000u, 3u}) {
    append_frame(good, static_cast<std::uint32_t>(ends.size()), n_pay % 256, n_pay);
    ends.push_back(good.size());
  }
  for (const std::size_t n_piece :
       {std::size_t{1}, std::size_t{7}, std::size_t{33}, std::size_t{4096}, good.size()}) {
    CountingSink sink;
    cr_expect(read_stream(good, n_piece, sink) && sink.n_frames == 7, "pieces of %zu", n_piece);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    Bytes bad = good;
    // A flipped bit in the head of frame k: exactly the frames before it arrive.
    const std::size_t k = random() % 7;
    const std::size_t start = k ? ends[k - 1] : 0;
    bad[start + random() % tcp::kFrameHeaderBytes] ^= static_cast<unsigned char>(1 << random() % 8);
    CountingSink sink;
    std::string why;
    cr_expect(!read_stream(bad, 1 + random() % 100000, sink, &why));
    cr_expect_eq(sink.n_frames, static_cast<int>(k));
    cr_expect(why.find("corrupt at byte " + std::to_string(start)) != std::string::npos, "%s",
              why.c_str());
  }
}

Test(tcp, survives_random_bytes, .timeout = 60) {
  std::mt19937 random(2);
  for (int i = 0; i < 3000; ++i) {
    Bytes bytes(random() % 2000);
    for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
    try_untrusted(bytes);
  }
}

Test(tcp, greetings_prove_the_pair_the_job_and_the_moment) {
  const tcp::Nonce low = tcp::random_nonce(), high = tcp::random_nonce();
  const tcp::PairKey key = tcp::pair_key("job", low, high);
  const tcp::Challenge theirs = tcp::random_challenge(), other = tcp::random_challenge();
  const auto bytes = tcp::encode_greeting(
      {tcp::GreetingKind::welcome, 1, 2, tcp::random_challenge()}, theirs, key);
  tcp::Greeting greeting;
  cr_assert(!tcp::decode_greeting(bytes, greeting));
  cr_expect(greeting.kind == tcp::GreetingKind::welcome && greeting.from == 1 && greeting.to == 2);
  cr_expect(tcp::is_genuine(bytes, theirs, key));
  cr_expect(!tcp::is_genuine(bytes, other, key), "a replay");
  cr_expect(!tcp::is_genuine(bytes, theirs, tcp::pair_key("other job", low, high)));
  cr_expect(!tcp::is_genuine(bytes, theirs, tcp::pair_key("job", high, low)));
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    auto bad = bytes;
    bad[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    cr_expect(!tcp::is_genuine(bad, theirs, key) || tcp::decode_greeting(bad, greeting), "%zu",
              bit);
  }
}

// --- Addresses ---

Test(tcp, publishes_addresses_that_survive_the_way_and_nothing_else_does) {
  tcp::Published published;
  published.host = tcp::this_host();
  published.sockets = {socket_at("10.0.0.1", 4000), socket_at("fd00::1", 65535),
                       socket_at("127.0.0.1", 1, true)};
  const std::string bytes = tcp::encode_published(published);
  const auto read = tcp::decode_published(bytes);
  cr_assert(read.has_value());
  cr_expect(read->host == published.host && read->sockets == published.sockets);
  cr_expect(tcp::to_string(read->sockets[1]) == "[fd00::1]:65535");
  for (std::size_t n = 0; n < bytes.size(); ++n)
    cr_expect(!tcp::decode_published(std::string_view(bytes).substr(0, n)), "%zu bytes", n);
  cr_expect(!tcp::decode_published(bytes + "x"));
  std::string other_version = bytes;
  other_version[0] = 9;
  cr_expect(tcp::decode_published(other_version).error().text.find("version 9") !=
            std::string::npos);
}

Test(tcp, listens_where_it_is_useful_and_where_rlx_net_says) {
  using Kind = Interface::Kind;
  const std::vector<Interface> all = {interface_at("lo", "127.0.0.1", 8, Kind::loopback),
                                      interface_at("docker0", "172.17.0.1", 16, Kind::bridge),
                                      interface_at("eth0", "192.168.1.5", 24, Kind::device, 1000),
                                      interface_at("eth0", "2001:db8::5", 64, Kind::device, 1000),
                                      interface_at("ib0", "10.1.0.5", 16, Kind::device, 100000),
                                      interface_at("tun0", "10.8.0.2", 24, Kind::made),
                                      interface_at("lo", "::1", 128, Kind::loopback)};
  const struct {
    const char* net;
    const char* wanted;  // nullptr: an error
  } table[] = {{"", "ib0 eth0 eth0 tun0 docker0 lo "},
               {"eth0", "eth0 eth0 lo "},
               {"10.0.0.0/8", "ib0 tun0 lo "},
               {"tun0,192.168.0.0/16", "tun0 eth0 lo "},
               {"2001:db8::/32", "eth0 lo "},
               {"ens5,eth0", "eth0 eth0 lo "},
               {"127.0.0.0/8", "lo "},
               {"wlan0", nullptr},
               {"10.0.0.0/33", nullptr},
               {"10.0.0/8", nullptr},
               {"203.0.113.0/24", nullptr}};
  for (const auto& row : table) {
    const auto chosen = tcp::select_interfaces(all, row.net, false);
    cr_expect_eq(chosen.has_value(), row.wanted != nullptr, "'%s'", row.net);
    if (chosen && row.wanted)
      cr_expect(names(*chosen) == row.wanted, "'%s': %s", row.net, names(*chosen).c_str());
    if (!chosen)
      cr_expect(chosen.error().text.find("RLX_NET=" + std::string(row.net)) != std::string::npos);
  }
  cr_expect(names(*tcp::select_interfaces(all, "", true)) == "lo ");
  cr_expect(!tcp::select_interfaces({}, "", false));
}

Test(tcp, dials_near_addresses_first_and_never_its_own) {
  using Kind = Interface::Kind;
  tcp::HostKey here{}, there{};
  there[0] = 1;
  const std::vector<Interface> own = {interface_at("eth0", "192.168.1.5", 24, Kind::device),
                                      interface_at("docker0", "172.17.0.1", 16, Kind::bridge),
                                      interface_at("lo", "127.0.0.1", 8, Kind::loopback)};
  tcp::Published peer;
  peer.sockets = {socket_at("10.0.0.9", 1), socket_at("172.17.0.1", 2), socket_at("172.17.0.3", 3),
                  socket_at("192.168.1.9", 4), socket_at("127.0.0.1", 5, true)};
  peer.host = there;
  const auto far = tcp::dial_order(here, own, peer);
  const std::vector<SocketAddress> wanted = {peer.sockets[3], peer.sockets[0], peer.sockets[2]};
  cr_expect(far == wanted);
  peer.host = here;
  cr_expect(tcp::dial_order(here, own, peer).front() == peer.sockets[4]);
}

Test(tcp, reads_port_ranges) {
  cr_expect(tcp::parse_port_range("")->first == 0);
  cr_expect(tcp::parse_port_range("5000-5010")->last == 5010);
  cr_expect(tcp::parse_port_range("5000-5000")->last == 5000);
  for (const char* bad : {"5000", "-", "5000-", "0-5", "5010-5000", "1-65536", "1-2x", "a-b"})
    cr_expect(!tcp::parse_port_range(bad), "%s", bad);
}

// --- Two wires in one process ---

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
