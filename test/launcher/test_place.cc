// SPDX-License-Identifier: MIT OR Apache-2.0
// Mapping over several hosts, GPUs, rank files, and how a plan reads in print.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "launcher/allocation.h"
#include "launcher/described.h"
#include "launcher/display.h"
#include "launcher/rank_file.h"
#include "test/launcher/launch.h"
#include "test/launcher/machines.h"

using namespace rlx;
using namespace rlx::launcher;
using rlx::test::cut;
using rlx::test::expect_same;
using rlx::test::holds;
using rlx::test::machine;

namespace {

// Hosts by name: small ones of 4 cores and 2 packages, "big" of 128 cores and 8 GPUs.
struct Cluster {
  Topology small = machine("pack:2 numa:1 core:2 pu:1");
  Topology big = machine("pack:2 numa:2 l3:2 core:16 pu:2", 4);
  std::vector<std::string> variables;  // of every node
  std::vector<GpuFact> gpu_facts;      // of big ones

  Result<Plan> plan(const std::string& words) const {
    RLX_TRY_ASSIGN(const auto line, parse_command_line(cut(words)));
    RLX_TRY_ASSIGN(const auto allocation, read_allocation(line, Environment(), "box"));
    Topologies topologies;
    topologies.add(small);
    topologies.add(big);
    std::vector<NodeFacts> facts;
    for (const auto& host : allocation.hosts) {
      const bool is_big = host.name.starts_with("big");
      facts.push_back(facts_of(is_big ? big : small, Environment(variables), host.name));
      facts.back().gpus = is_big ? gpu_facts : std::vector<GpuFact>();
    }
    RLX_TRY_ASSIGN(auto hosts, hosts_of(allocation, facts, topologies));
    return make_plan(line, std::move(hosts), allocation);
  }

  // "a a b": the host of each rank; with `cpus` "a=0-1"; with `gpus` "a/0+1"; or the error.
  std::string places(const std::string& words, bool cpus = false, bool gpus = false) const {
    const auto planned = plan(words);
    if (!planned) return planned.error().text;
    std::string text;
    for (const auto& place : planned->mapping.places) {
      text += (text.empty() ? "" : " ") + planned->hosts[place.host].name;
      if (cpus) text += "=" + (place.cpus.empty() ? "*" : place.cpus.text());
      if (gpus) text += fmt::format("/{}", fmt::join(place.gpus, "+"));
    }
    return text;
  }
};

// The GPU variables of each rank.
std::string environments(const Plan& plan, const std::vector<std::string>& own = {}) {
  JobRequest request;
  request.apps.resize(plan.app_sizes.size());
  for (auto& app : request.apps) app.environment = own;
  std::string text;
  for (const auto& rank : make_job(std::move(request), plan).ranks)
    text += fmt::format("{}{}", text.empty() ? "" : " | ", fmt::join(rank.environment, " "));
  return text;
}

}  // namespace

Test(place, fills_hosts_in_the_order_asked) {
  const Cluster cluster;
  const struct {
    const char *words, *wanted;
  } table[] = {
      {"--host a,b -n 3 ./p", "a a a"},
      {"--host a:2,b:1,c:2 ./p", "a a b c c"},
      {"--host a:2,b:1,c:2 --map-by node ./p", "a b c a c"},
      {"--host a:2,b:1,c:2 --map-by node --rank-by slot ./p", "a a b c c"},
      {"--host a:2,b:2 --rank-by node ./p", "a b a b"},
      {"--host a:2,b:2 --map-by numa:span -n 4 ./p", "a a b b"},
      {"--host a,b --map-by package:span -n 6 --rank-by fill ./p", "a a a a b b"},
      {"--host a,b --map-by package:span -n 6 ./p", "a a b b a a"},
      {"--host a,b -ppn 1 ./p", "a b"},
      {"--host a,b -ppn 2 -n 3 ./p", "a a b"},
      {"--host a,b -ppn core ./p", "a a a a b b b b"},
      {"--host a,b --map-by ppr:1:package ./p", "a a b b"},
      {"--host a,b --map-by :pe=2 ./p", "a a b b"},
      {"--host b,a,b,b --map-by seq ./p", "b a b b"},
      {"--host b:2,a --map-by seq -n 2 ./p", "b b"},
      {"-n 1 --host a ./p : -n 2 --host b ./q : -n 1 ./r", "a b b a"},
      {"--map-by seq -n 1 --host b,a ./p : -n 2 --host a:2 ./q", "b a a"},
      {"--host a:1,b:1 --oversubscribe -n 5 ./p", "a a a b b"},
      {"--host a:3,b:1 --oversubscribe -n 8 ./p", "a a a a a a b b"},
  };
  for (const auto& row : table) expect_same(cluster.places(row.words), row.wanted, row.words);
}

Test(place, refuses_too_many_ranks_with_a_table_and_the_way_out) {
  const Cluster cluster;
  const std::string table = cluster.places("--host a:2,long-name -n 9 ./p");
  for (const char* part :
       {"9 ranks wanted, but there are only 6 slots:", "a              2  --host",
        "long-name      4  its cores we may use: cpus 0-3", "--oversubscribe"})
    cr_expect(holds(table, part), "%s: %s", part, table.c_str());
  const test::TempDir dir;
  std::ofstream(dir / "f") << "a slots=1 max_slots=2\n";
  const std::string file = "--hostfile " + (dir / "f") + " ";
  expect_same(cluster.places(file + "--oversubscribe -n 2 ./p"), "a a");
  cr_expect(holds(cluster.places(file + "--oversubscribe -n 3 ./p"), "even for --oversubscribe"));
  cr_expect(holds(cluster.places(file + "-n 2 ./p"), dir / "f:1, max_slots=2"));
  const struct {
    const char *words, *wanted;
  } wrong[] = {
      {"--host a,b -ppn 2 -n 5 ./p", "2 on each of 2 hosts there is room for 4"},
      {"--host a -ppn 8 ./p", "--oversubscribe"},
      {"--host a --oversubscribe -n 1048576 ./p : -n 1 ./q",
       "1048577 ranks wanted, but a job has at most 1048576"},
      {"--host n[1-1000] -ppn 60000 ./p", "60000000 ranks wanted, but a job has at most 1048576"},
      {"--host a,b --map-by seq -n 3 ./p", "3 ranks wanted, but only 2 places listed"},
      {"--host a,b --map-by :pe=5 -n 1 ./p", "5 cores wanted for 1 rank"},
      {"--map-by slot:span ./p", "span takes"},
      {"--rank-by fill ./p", "--rank-by fill"},
      {"--map-by :pe=2 --bind-to none ./p", "leave one out"},
      {"--map-by ppr:2:numa -ppn 3 ./p", "leave one out"},
      {"--map-by seq --rank-by node ./p", "order is given"},
      {"--host a --map-by gpu ./p", "a has 0 that may be used"},
      {"--host big --gpus-per-rank 9 ./p", "9 GPUs wanted for each rank, but big has 8"},
      {"--host a --cpu-list 64 ./p", "--cpu-list 64 holds none"},
  };
  for (const auto& row : wrong) {
    const std::string seen = cluster.places(row.words);
    cr_expect(holds(seen, row.wanted), "%s: %s", row.words, seen.c_str());
  }
}

Test(place, names_the_cpus_of_a_list_that_are_not_there) {
  const Cluster cluster;
  const struct {
    const char *words, *wanted;
  } table[] = {
      {"--host a --cpu-list 0-99 -n 2 ./p",
       "--cpu-list 0-99 names cpus that a may not use: 4-99 (it may use 0-3)"},
      {"--host a,b,c -ppn 1 --cpu-list 1,5 --bind-to none ./p",
       "--cpu-list 1,5 names cpus that a may not use: 5 (it may use 0-3) and so on 2 more hosts"},
      {"--host big,a -n 2 --cpu-list 0-99 ./p", ""},  // nothing runs on a
      {"--host a --cpu-list 0-3 -n 2 ./p", ""}};
  for (const auto& row : table) expect_same(cluster.plan(row.words)->mapping.note, row.wanted);
}

Test(place, puts_ranks_near_their_gpus) {
  Cluster cluster;
  // 128 cores of two threads: cpus 0-127 in the first package with GPUs 0-3, 128-255 in the second.
  expect_same(cluster.places("--host big -n 2 ./p", true, true), "big=0-63/0 big=64-127/1");
  expect_same(cluster.places("--host big -n 8 ./p", true, true),
              "big=0-31/0 big=32-63/1 big=64-95/2 big=96-127/3 big=128-159/4 big=160-191/5 "
              "big=192-223/6 big=224-255/7");
  expect_same(cluster.places("--host big -n 1 ./p", true, true), "big=0-255/0");
  expect_same(cluster.places("--host big,big2 --map-by gpu -n 10 ./p", false, true),
              "big/0 big/1 big/2 big/3 big/4 big/5 big/6 big/7 big2/0 big2/1");
  expect_same(cluster.places("--host big --gpus-per-rank 4 ./p", true, true),
              "big=0-127/0+1+2+3 big=128-255/4+5+6+7");
  expect_same(cluster.places("--host big --map-by package -n 2 ./p", true, true),
              "big=0-127/0 big=128-255/4");
  expect_same(cluster.places("--host big,a -ppn gpu -n 3 ./p", false, true), "big/0 big/1 big/2");
  const auto shared = *cluster.plan("--host big --map-by gpu -n 12 ./p");
  cr_expect(holds(shared.mapping.note, "12 ranks share 8 GPUs of big"), "%s",
            shared.mapping.note.c_str());
  cr_expect(cluster.plan("--host big -n 12 ./p")->mapping.note.empty());
}

Test(gpus, of_ranks_are_told_by_variables) {
  Cluster cluster;
  expect_same(environments(*cluster.plan("--host big -n 2 ./p")), "RLX_GPU=0 | RLX_GPU=1");
  expect_same(environments(*cluster.plan("--host big --gpus-per-rank 2 -n 2 ./p")),
              "CUDA_VISIBLE_DEVICES=0,1 CUDA_DEVICE_ORDER=PCI_BUS_ID RLX_GPU=0 | "
              "CUDA_VISIBLE_DEVICES=2,3 CUDA_DEVICE_ORDER=PCI_BUS_ID RLX_GPU=0");
  expect_same(environments(*cluster.plan("--host a -n 1 ./p")), "");
  // What was set where rlxrun was started is not what counts there.
  expect_same(environments(*cluster.plan("--host a -n 1 ./p"), {"CUDA_VISIBLE_DEVICES=7"}),
              "CUDA_VISIBLE_DEVICES");
  expect_same(environments(*cluster.plan("--host a -x CUDA_VISIBLE_DEVICES=7 -n 1 ./p"),
                           {"CUDA_VISIBLE_DEVICES=7"}),
              "");
  cluster.variables = {"CUDA_VISIBLE_DEVICES=2,3"};
  expect_same(environments(*cluster.plan("--host a -n 2 ./p")),
              "CUDA_VISIBLE_DEVICES=2,3 RLX_GPU=0 | CUDA_VISIBLE_DEVICES=2,3 RLX_GPU=1");
  cr_expect(holds(environments(*cluster.plan("--host a --gpus-per-rank 1 -n 2 ./p")),
                  "CUDA_VISIBLE_DEVICES=3 CUDA_DEVICE_ORDER=PCI_BUS_ID RLX_GPU=0"));
  cluster.variables = {"CUDA_VISIBLE_DEVICES="};
  cr_expect(holds(cluster.places("--host big --gpus-per-rank 1 ./p"),
                  "big has 0 that may be used (CUDA_VISIBLE_DEVICES=)"));
}

Test(rank_file, places_every_rank_by_hand) {
  const Cluster cluster;
  const test::TempDir dir;
  const std::string file = dir / "ranks";
  std::ofstream(file) << "# by hand\nrank 1=b slot=1:0\nrank 0=a slot=0-1,3\nrank 2=a slot=1:*\n"
                         "rank 3=b slot=0:1,1:0-1\nrank 4=b\n";
  expect_same(cluster.places("--host a,b --rankfile " + file + " ./p", true),
              "a=0-1,3 b=2 a=2-3 b=1-3 b=*");
  expect_same(cluster.places("--host a,b --map-by rankfile:file=" + file + " -n 2 ./p", true),
              "a=0-1,3 b=2");
  cr_expect(holds(cluster.places("--host a --rf " + file + " ./p"), ":2: host 'b' is not one of"));
  cr_expect(holds(cluster.places("--host a,b --rf " + file + " -n 6 ./p"), "rank 5 has no line"));
  for (const char* other : {"none", "numa", "hwt", "rr"})
    cr_expect(holds(cluster.places("--host a,b --rf " + file + " --bind-to " + other + " ./p"),
                    "--bind-to: the rank file says"));
  expect_same(cluster.places("--host a,b --rf " + file + " --bind-to core -n 1 ./p", true),
              "a=0-1,3");
  cr_expect(holds(cluster.places("--host a,b -ppn 1 --rf " + file + " ./p"),
                  "--nproc-per-node and --rankfile"));
  const struct {
    const char *text, *wanted;
  } wrong[] = {{"rank 0=a slot=x", "f:1: 'rank 0=a slot=x' is not"},
               {"rank 0=a slot=0:", "f:1:"},
               {"rank 0=a slot=:0", "f:1:"},
               {"rank 0=a more", "f:1:"},
               {"rank 0", "f:1:"},
               {"rank 0=a\nrank 0=b", "f:2: rank 0 is placed by f:1 already"},
               {"rank 1=a\nrank 2=a", "no line places rank 0"},
               {"rank 99999999=a", "f:1:"},
               {"", "places no rank"}};
  for (const auto& row : wrong) {
    const auto lines = parse_rank_file(row.text, "f");
    cr_expect(!lines && holds(lines.error().text, row.wanted), "%s: %s", row.text,
              lines ? "accepted" : lines.error().text.c_str());
  }
  std::ofstream(file) << "rank 0=a slot=1:7\n";
  cr_expect(holds(cluster.places("--host a --rf " + file + " ./p"),
                  "ranks:1: a has no core 7 in package 1, but 2"));
}

Test(display, is_for_people_and_for_programs) {
  const Cluster cluster;
  const auto shown = [&](const std::string& words) {
    return displayed(*parse_command_line(cut(words)), *cluster.plan(words));
  };
  const std::string all = "--host a:2,big --display alloc,topo,map,bind --map-by node -n 2 ./p x ";
  const std::string text = shown(all);
  for (const char* part :
       {"a: 2 slots (--host)", "big: 128 slots (its cores we may use: cpus 0-255)",
        "a: 2 package [0-1 2-3] 2 numa [0-1 2-3]", "gpu 0000:10:00.0 10de:2330 near cpus 0-127",
        "rank 1 on big (local rank 0): ./p x",
        "rank 0 on a: cpus 0-3 (4 cores, numa 0,1, package 0,1)",
        "rank 1 on big: cpus 0-255 (128 cores, numa 0,1,2,3, package 0,1); gpu 0 (0000:10:00.0)"})
    cr_expect(holds(text, part), "%s: %s", part, text.c_str());
  const auto json = nlohmann::json::parse(shown("--json " + all));
  expect_same(json["allocation"]["hosts"][1]["host"].get<std::string>(), "big");
  cr_expect_eq(json["topology"][1]["gpus"].size(), 8u);
  expect_same(json["map"][1]["argv"].dump(), R"(["./p","x"])");
  expect_same(
      json["bindings"][1].dump(),
      R"({"bound":true,"cpus":"0-255","gpus":[{"name":"0","pci":"0000:10:00.0"}],)"
      R"("host":"big","numa":[0,1,2,3],"package":[0,1],"rank":1,"sees_only_its_gpus":false})");
  expect_same(shown("--host a -n 1 ./p"), "");
  cr_expect(holds(shown("--dry-run --host a -n 1 ./p"), "rank 0 on a"));
}

Test(described, machines_stand_for_hosts_in_a_dry_run) {
  const test::TempDir dir;
  std::ofstream(dir / "big.xml") << test::machine_xml("pack:2 numa:2 core:32 pu:1", 4);
  std::ofstream(dir / "small.xml") << test::machine_xml("core:2 pu:1");
  const NodeFacts own;
  const auto slots = [&](const std::string& words) {
    const auto line = *parse_command_line(cut(words + " ./p"));
    const auto allocation = *read_allocation(line, Environment(), "box");
    Topologies topologies;
    const auto facts = described_facts(line, allocation, own, topologies);
    if (!facts) return facts.error().text;
    std::string text;
    const auto hosts = hosts_of(allocation, *facts, topologies);
    for (const auto& host : hosts.value())
      text += fmt::format("{}:{}/{} ", host.name, host.slots, host.gpus.gpus.size());
    return text;
  };
  const std::string big = " --topo-file " + (dir / "big.xml");
  const std::string one = " --topo-file c=" + (dir / "small.xml");
  expect_same(slots("--dry-run --host a,b:3,c" + big + one), "a:128/8 b:3/8 c:2/0 ");
  cr_expect(holds(slots("--host a" + big), "--topo-file is for --dry-run"));
  cr_expect(holds(slots("--dry-run --host a,c" + one), "host 'a' has no --topo-file"));
  cr_expect(holds(slots("--dry-run --host a" + big + one), "there is no such host in this job"));
  cr_expect(holds(slots("--dry-run --topo-file /nowhere/x.xml"), "/nowhere/x.xml"));
}
