// SPDX-License-Identifier: MIT OR Apache-2.0
// TCP between two hosts with awkward networks. Each rank makes a network namespace of its own, the
// two are joined by a veth pair; everything ends with the processes. Needs root and iproute2 (nft
// for the firewalls): without them the tests are skipped and say so.
#include <criterion/criterion.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "fabrics/tcp.h"
#include "test/fabrics/wire_rank.h"

using namespace rlx;
using namespace rlx::test;

namespace {

bool sh(const std::string& command) {
  const int status = std::system((command + " >/dev/null 2>&1").c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void must_sh(const std::string& command) { RLX_EXPECT(sh(command), "{}", command); }

// What the ranks tell each other before there is a network.
struct Shared {
  std::atomic<int> pid_of_1;
};

Shared& shared() {
  static Shared* const memory = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *memory;
}

// Skips the test where it cannot be made.
void need_namespaces(bool firewall) {
  const char* missing = nullptr;
  if (!sh("unshare -n ip link add rlxa type veth peer name rlxb"))
    missing = "cannot make network namespaces and veth pairs (not root, or no iproute2)";
  else if (firewall && !sh("unshare -n nft add table inet rlx"))
    missing = "cannot make firewall rules (no nft)";
  if (missing) cr_skip_test("%s", missing);
}

// Rank r becomes a host 10.77.0.(r+1) on a veth of its own.
void become_a_host(Bootstrap& boot) {
  const int me = boot.facts().rank;
  RLX_EXPECT(unshare(CLONE_NEWNET) == 0, "unshare: {}", strerror(errno));
  must_sh("ip link set lo up");
  if (me == 1) shared().pid_of_1 = getpid();
  RLX_EXPECT_OK(boot.fence(Deadline::after_ms(20000)));
  if (me == 0)
    must_sh(fmt::format("ip link add wire0 type veth peer name wire0 netns {}",
                        shared().pid_of_1.load()));
  RLX_EXPECT_OK(boot.fence(Deadline::after_ms(20000)));
  must_sh(fmt::format("ip addr add 10.77.0.{}/24 dev wire0", me + 1));
  must_sh("ip link set wire0 up");
  const Deadline deadline = Deadline::after_ms(20000);
  while (!sh("ip link show wire0 | grep -q 'state UP'"))  // once the other end is up too
    RLX_EXPECT(!deadline.passed(), "wire0 does not come up");
  RLX_EXPECT_OK(boot.fence(Deadline::after_ms(20000)));
}

// A bridge with a carrier and the address that every host of the world has there, and an interface
// into nothing whose addresses look like a shared network.
void add_decoys(int me) {
  must_sh("ip link add docker0 type bridge && ip addr add 172.17.0.1/16 dev docker0");
  must_sh("ip link add port0 type veth peer name box0 && ip link set port0 master docker0 up");
  must_sh("ip link set box0 up && ip link set docker0 up");
  must_sh("ip link add vpn0 type veth peer name void0 && ip link set void0 up");
  must_sh(fmt::format("ip addr add 10.66.0.{}/24 dev vpn0 && ip link set vpn0 up", me + 1));
  must_sh("ip link add down0 type veth peer name down1");
  must_sh(fmt::format("ip addr add 10.55.0.{}/24 dev down0", me + 1));
}

std::unique_ptr<Wire> wire_of(Bootstrap& boot, int connect_ms = 10000, int dead_ms = 10000) {
  TcpOptions options;
  options.rank = boot.facts().rank;
  options.job_id = boot.facts().job_id;
  options.connect_ms = connect_ms;
  options.dead_ms = dead_ms;
  auto wire = TcpWire::create(options);
  RLX_EXPECT_OK(wire);
  return std::move(*wire);
}

void run_on_two_hosts(const std::function<void(Bootstrap&)>& body) {
  WorldOptions options;
  options.know_locals = false;
  shared();  // mapped before there are ranks
  const auto result = fork_world(
      2,
      [&](Bootstrap& boot) {
        become_a_host(boot);
        body(boot);
      },
      options);
  cr_expect(result.ok, "%s", result.text.c_str());
}

// Frames in both directions, within two seconds of the first post.
void exchange(WireRank& rank, const char* what) {
  int n_got = 0;
  rank.sink.frame_hook = [&](Link, const FrameView&) { ++n_got; };
  for (int i = 0; i < 10; ++i) rank.post(1 - rank.rank(), {.tag = static_cast<std::uint64_t>(i)});
  rank.until([&] { return n_got == 10; }, what, 2000);
  rank.finish();
}

}  // namespace

Test(tcp_hosts, decoy_interfaces_do_not_hinder, .timeout = 60) {
  need_namespaces(false);
  run_on_two_hosts([](Bootstrap& boot) {
    add_decoys(boot.facts().rank);
    WireRank rank(boot, wire_of(boot));
    exchange(rank, "a connection beside decoys");
  });
}

Test(tcp_hosts, one_open_direction_is_enough, .timeout = 60) {
  need_namespaces(true);
  for (const int closed : {0, 1})
    run_on_two_hosts([&](Bootstrap& boot) {
      if (boot.facts().rank == closed) {
        must_sh("nft add table inet rlx");
        must_sh(
            "nft 'add chain inet rlx in { type filter hook input priority 0; policy accept; }'");
        must_sh("nft add rule inet rlx in iifname wire0 tcp flags syn / syn,ack drop");
      }
      WireRank rank(boot, wire_of(boot));
      exchange(rank, "a connection against a firewall");
    });
}

Test(tcp_hosts, a_firewall_on_both_sides_is_an_error_in_time_that_names_the_addresses,
     .timeout = 60) {
  need_namespaces(true);
  run_on_two_hosts([](Bootstrap& boot) {
    must_sh("nft add table inet rlx");
    must_sh("nft 'add chain inet rlx in { type filter hook input priority 0; policy accept; }'");
    must_sh("nft add rule inet rlx in iifname wire0 tcp flags syn / syn,ack drop");
    WireRank rank(boot, wire_of(boot, 1500));
    const Link peer = 1 - rank.rank();
    (void)rank.wire().post(peer, {.tag = 1});
    rank.until([&] { return rank.sink.n_down[peer] == 1; }, "giving up", 5000);
    const std::string& text = rank.sink.down[peer];
    RLX_EXPECT(text.find(fmt::format("10.77.0.{}:", peer + 1)) != std::string::npos, "{}", text);
    RLX_EXPECT(text.find("firewall") != std::string::npos, "{}", text);
    rank.meet();
  });
}

Test(tcp_hosts, a_host_that_vanishes_is_noticed_with_and_without_traffic, .timeout = 90) {
  need_namespaces(false);
  for (const bool traffic : {true, false})
    run_on_two_hosts([&](Bootstrap& boot) {
      WireRank rank(boot, wire_of(boot, 10000, 2000));
      exchange(rank, "a connection");
      if (rank.rank() == 1) {
        must_sh("ip link set wire0 down");
        rank.meet();
        return rank.meet();
      }
      rank.meet();
      if (traffic) rank.post(1, {.tag = 1});
      rank.until([&] { return rank.sink.n_down[1] == 1; }, "news of the cut", 25000);
      const std::string& text = rank.sink.down[1];
      RLX_EXPECT(text.find("10.77.0.2:") != std::string::npos, "{}", text);
      RLX_EXPECT(text.find("acknowledged") != std::string::npos, "{}", text);
      rank.meet();
    });
}
