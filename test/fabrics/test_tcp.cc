// SPDX-License-Identifier: MIT OR Apache-2.0
// The parts of the TCP wire: formats, addresses, greetings, port ranges. The wire itself is in
// test_tcp_wire.cc, what every wire promises in test_wire_conformance.cc.
#include <criterion/criterion.h>
#include <netinet/in.h>

#include <random>

#include "test/fabrics/untrusted_tcp.h"

using namespace rlx;
using namespace rlx::test;
using tcp::Interface;
using tcp::SocketAddress;

namespace {

// --- Formats ---

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
