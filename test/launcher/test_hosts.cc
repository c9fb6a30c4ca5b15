// SPDX-License-Identifier: MIT OR Apache-2.0
// Which hosts a job may use, and what is known of them.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launcher/allocation.h"
#include "launcher/node_facts.h"
#include "test/launcher/launch.h"

using namespace rlx;
using namespace rlx::launcher;
using rlx::test::cut;
using rlx::test::expect_same;

namespace {

// "a b:4": the hosts of an allocation, with the slots somebody said; or the error.
std::string allocated(const char* line, const std::vector<std::string>& environment = {}) {
  const auto parsed = parse_command_line(cut(line));
  if (!parsed) return parsed.error().text;
  const auto allocation = read_allocation(*parsed, Environment(environment), "box");
  if (!allocation) return allocation.error().text;
  std::string text;
  for (const auto& host : allocation->hosts)
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", host.name,
                        host.slots > 0 ? fmt::format(":{}", host.slots) : "");
  return text;
}

}  // namespace

Test(hosts, are_those_of_the_options_or_this_one_alone) {
  const struct {
    const char *line, *hosts;
  } table[] = {{"./a", "box"},
               {"--host a ./a", "a"},
               {"--host a:2,b ./a", "a:2 b"},
               {"--host a,a,b:2 --host b ./a", "a:2 b:3"},
               {"-n 1 --host a ./a : -n 1 --host b ./b", "a b"}};
  for (const auto& row : table) expect_same(allocated(row.line), row.hosts);
}

Test(facts, of_a_node_reach_the_planner_through_bytes) {
  TopologySource source;
  source.synthetic = "pack:2 numa:2 core:4 pu:2";
  const Topology machine = Topology::load(source).value();
  NodeFacts facts = facts_of(machine, Environment({"CUDA_VISIBLE_DEVICES=0,1", "A=b"}), "n1");
  facts.allowed = *CpuSet::parse("0-7");
  facts.quota = 2.5;
  Allocation allocation;
  allocation.hosts = {{"n1", "", 0, 0, 0, "--host"}};
  Topologies topologies;
  const auto of_bytes = [&] { return decode_node_facts(encode(facts)).value(); };
  auto refused = hosts_of(allocation, std::vector{of_bytes()}, topologies);
  cr_assert(!refused);  // neither XML nor a topology of that signature
  facts.xml = machine.xml().value();
  const auto hosts = hosts_of(allocation, std::vector{of_bytes()}, topologies);
  cr_assert(hosts.has_value(), "%s", hosts ? "" : hosts.error().text.c_str());
  cr_expect_eq((*hosts)[0].slots, 3);  // the quota, rounded up
  expect_same((*hosts)[0].topology.allowed().text(), "0-7");
  facts.xml.clear();
  cr_expect(hosts_of(allocation, std::vector{of_bytes()}, topologies).has_value());
  const std::string bytes = encode(facts);
  for (std::size_t n = 0; n < bytes.size(); ++n)
    cr_expect(!decode_node_facts(std::string_view(bytes).substr(0, n)), "%zu bytes", n);
  cr_assert_eq(of_bytes().visible.size(), 1u);
  expect_same(of_bytes().visible[0], "CUDA_VISIBLE_DEVICES=0,1");
}
