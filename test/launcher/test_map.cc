// SPDX-License-Identifier: MIT OR Apache-2.0
// Mapping and binding, on described machines.
#include <criterion/criterion.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "base/cgroup.h"
#include "base/topology.h"
#include "launcher/bind.h"
#include "launcher/map.h"
#include "launcher/option_values.h"
#include "test/launcher/launch.h"
#include "test/launcher/machines.h"

using namespace rlx;
using namespace rlx::launcher;
using rlx::test::expect_same;
using rlx::test::holds;
using rlx::test::machine;

namespace {

// 2 packages, 4 NUMA nodes of 4 cores with 2 threads each: cpus 0 to 31.
constexpr const char* kBig = "pack:2 numa:2 l3:1 core:4 pu:2";

// "0-3 4-7": the cpus of each rank, "*" where it is not bound; or the error.
std::string bound(const Topology& topology, const std::string& map_by, const std::string& bind_to,
                  int n, RankBy rank_by = RankBy::kAsMapped) {
  MapOptions options;
  if (!map_by.empty()) cr_assert(read_map_by(map_by, options).has_value());
  if (!bind_to.empty()) cr_assert(read_bind_to(bind_to, options).has_value());
  options.rank_by = rank_by;
  const Host host{"box", topology.slots(), "its cores", false, topology};
  const auto mapping = map_ranks({n}, options, {&host, 1});
  if (!mapping) return mapping.error().text;
  std::string out;
  for (const auto& place : mapping->places)
    out += (out.empty() ? "" : " ") + (place.cpus.empty() ? "*" : place.cpus.text());
  return out;
}

}  // namespace

Test(map, places_and_binds_as_asked) {
  const Topology big = machine(kBig), flat = machine("core:6 pu:1"), one = machine("core:1 pu:1");
  const Topology caches = machine("l3:2 l2:2 l1:2 core:1 pu:2");
  const Topology far = machine("core:8 pu:2(indexes=0,8,1,9,2,10,3,11,4,12,5,13,6,14,7,15)");
  const struct {
    const Topology& topology;
    const char *map_by, *bind_to;
    int n;
    const char* wanted;
  } table[] = {
      // Slices: equal, and within one package and NUMA node where that is possible.
      {big, "", "", 1, "0-31"},
      {big, "", "", 2, "0-15 16-31"},
      {big, "", "", 3, "0-7 8-15 16-31"},
      {big, "", "", 4, "0-7 8-15 16-23 24-31"},
      {big, "", "", 8, "0-3 4-7 8-11 12-15 16-19 20-23 24-27 28-31"},
      {big, "", "", 17, "* * * * * * * * * * * * * * * * *"},
      {flat, "", "", 3, "0-1 2-3 4-5"},
      {one, "", "", 1, "0"},
      {one, "", "", 2, "* *"},
      {big, "", "none", 2, "* *"},
      {big, "", "core", 3, "0-1 2-3 4-5"},
      {big, "", "hwt", 3, "0 1 2"},
      {big, "numa", "numa", 5, "0-7 8-15 16-23 24-31 0-7"},
      {big, "package", "package", 3, "0-15 16-31 0-15"},
      {big, "package", "core", 4, "0-1 16-17 2-3 18-19"},
      {big, "package", "", 4, "0-7 16-23 8-15 24-31"},
      {big, "numa", "", 2, "0-7 8-15"},
      {big, "ppr:1:package", "", 2, "0-15 16-31"},
      {big, "ppr:2:numa", "core", 4, "0-1 2-3 8-9 10-11"},
      {big, ":pe=2", "", 3, "0-3 4-7 8-11"},
      {big, "numa:pe=2", "core", 3, "0-3 8-11 16-19"},
      {big, "numa:pe=2", "hwt", 5, "0-1 8-9 16-17 24-25 2-3"},
      {big, ":pe=3", "hwt", 2, "0-2 3-5"},
      // As MPICH says it. Far has the two threads of its first core at 0 and 8.
      {big, "", "core:2", 3, "0-3 4-7 8-11"},
      {big, "numa", "hwthread:2", 5, "0-1 8-9 16-17 24-25 2-3"},
      {big, "", "core:1:if-supported", 2, "0-1 2-3"},
      {far, "", "rr", 3, "0 1 2"},
      {far, "", "hwt", 3, "0 8 1"},
      {flat, "", "rr", 8, "0 1 2 3 4 5 0 1"},
      // To what the object is a part of.
      {big, "core", "numa", 5, "0-7 0-7 0-7 0-7 8-15"},
      {big, "numa", "package", 3, "0-15 0-15 16-31"},
      {big, "hwt", "core", 3, "0-1 0-1 2-3"},
      {big, "ppr:1:core", "l3", 5, "0-7 0-7 0-7 0-7 8-15"},
      {big, "", "package", 4, "0-15 0-15 16-31 16-31"},
      {flat, "", "core", 8, "0 1 2 3 4 5 0 1"},
      {caches, "l2cache", "", 3, "0-3 4-7 8-11"},
      {caches, "ppr:1:l2", "l1cache", 2, "0-1 4-5"},
      {caches, "core", "l2", 3, "0-3 0-3 4-7"},
      {caches, "", "machine", 2, "0-15 0-15"},
  };
  for (const auto& row : table)
    expect_same(bound(row.topology, row.map_by, row.bind_to, row.n), row.wanted,
                fmt::format("map-by '{}' bind-to '{}' n {}", row.map_by, row.bind_to, row.n));
  expect_same(bound(big, "package", "core", 4, RankBy::kFill), "0-1 2-3 16-17 18-19");
}

Test(map, refuses_what_does_not_fit_and_names_the_way_out) {
  const Topology big = machine(kBig);
  cr_expect(holds(bound(big, "ppr:1:package", "", 3), "has room for 2"));
  cr_expect(holds(bound(big, "numa:pe=3", "", 5), "--oversubscribe"));
  for (const char* low : {"core:pe=2", "ppr:1:core:pe=2", "core:pe=2:oversubscribe"})
    cr_expect(holds(bound(big, low, "", 1), "box has 1 in one core: map by a larger"), "%s", low);
  cr_expect(holds(bound(big, "numa:pe=5", "", 1), "or --map-by slot:pe=5"));
  cr_expect(
      holds(bound(big, "slot:pe=17", "", 1), "17 cores wanted for 1 rank, but box has 16 there"));
  cr_expect(holds(bound(big, "core:pe=3", "hwt", 1),
                  "3 hwts wanted for a rank, but box has 2 in one core"));
  cr_expect(holds(bound(big, "", "", 500), "--oversubscribe"));
  cr_expect(holds(bound(big, ":pe=2", "rr", 2), "only be core or hwt"));
  const Host promised{"box", 4, "as --host says", true, big};
  const auto refused = map_ranks({5}, {}, {&promised, 1});
  cr_assert(!refused);
  for (const char* word :
       {"5 ranks", "only 4 slots", "box       4  as --host says", "--oversubscribe"})
    cr_expect(holds(refused.error().text, word), "%s", refused.error().text.c_str());
  MapOptions twice;
  twice.rank_lines.emplace_back();
  twice.by = MapBy::kNode;
  const auto both = map_ranks({1}, twice, {&promised, 1});
  cr_expect(!both && holds(both.error().text, "--rankfile and --map-by"));
  MapOptions allowed;
  allowed.oversubscribe = true;
  cr_expect(map_ranks({500}, allowed, {&promised, 1}).has_value());
  const Host bare{"box", 16, "its cores", false, big};
  const auto noted = map_ranks({20}, {}, {&bare, 1});
  cr_assert(noted && noted->oversubscribed);
  cr_expect(holds(noted->note, "20 ranks share 16 cores"), "%s", noted->note.c_str());
}

Test(map, cuts_every_number_of_ranks_into_disjoint_covering_slices) {
  for (const char* description : {kBig, "pack:3 numa:1 core:5 pu:1", "core:7 pu:2"}) {
    const Topology topology = machine(description);
    const int cores = topology.core_count();
    for (int n = 1; n <= cores; ++n) {
      CpuSet all;
      std::size_t sum = 0;
      const auto slices = split_cores(topology, topology.allowed(), n);
      cr_expect_eq(slices.size(), static_cast<std::size_t>(n), "%s n %d", description, n);
      for (const auto& slice : slices) {
        cr_expect(!slice.empty(), "%s n %d", description, n);
        sum += slice.count();
        all = all | slice;
      }
      cr_expect_eq(sum, all.count(), "%s n %d: slices overlap", description, n);
      cr_expect(all == topology.allowed(), "%s n %d: cores are left over", description, n);
    }
  }
}

Test(map, counts_ranks_where_nobody_said_how_many) {
  const Topology big = machine(kBig);
  const Host host{"box", big.slots(), "its cores", false, big};
  const auto count = [&](const char* map_by, int per_node) {
    MapOptions options;
    cr_assert(read_map_by(map_by, options).has_value());
    options.ranks_per_node = per_node;
    if (per_node > 0) options.per_node = PerNode::kNumber;
    AppLine app;
    app.argv = {"./a"};
    return (*count_ranks({app}, options, {&host, 1}))[0];
  };
  cr_expect_eq(count("slot", 0), 16);
  cr_expect_eq(count("ppr:2:numa", 0), 8);
  cr_expect_eq(count(":pe=4", 0), 4);
  cr_expect_eq(count(":pe=9", 0), 1);
  cr_expect_eq(count("slot", 3), 3);
}

Test(topology, reads_control_groups_of_both_versions) {
  namespace fs = std::filesystem;
  const test::TempDir root;
  const auto put = [&](const std::string& file, const std::string& text) {
    fs::create_directories(fs::path(root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  cr_expect_eq(cgroup_cpu_quota(root.path()), 0);  // none at all
  put("proc/self/cgroup", "0::/a/b\n");
  put("proc/self/mountinfo", "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  cr_expect_eq(cgroup_cpu_quota(root.path()), 0);
  put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  cr_expect_eq(cgroup_cpu_quota(root.path()), 2.5);  // of the group above
  put("proc/self/cgroup", "5:cpu,cpuacct:/docker/xyz\n3:cpuset:/\n");
  put("proc/self/mountinfo",
      "30 1 0:1 /docker/xyz /sys/fs/cgroup/cpu rw,nosuid - cgroup cgroup rw,cpu,cpuacct\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  cr_expect_eq(cgroup_cpu_quota(root.path()), 1.5);  // a container sees its group as the root
}

Test(topology, knows_sets_and_parts) {
  for (const char* text : {"0", "0-3", "0-3,8", "1,3,5-6,64-65"})
    expect_same(CpuSet::parse(text)->text(), text);
  for (const char* wrong : {"", "a", "1-", "3-1", "1,,2", "1 2", "99999999"})
    cr_expect(!CpuSet::parse(wrong), "%s", wrong);
  const Topology big = machine(kBig);
  cr_expect_eq(big.domains(Locality::kPackage).size(), 2u);
  cr_expect_eq(big.domains(Locality::kNuma).size(), 4u);
  cr_expect_eq(big.domains(Locality::kThread).size(), 32u);
  cr_expect_eq(big.slots(), 16);
  const Topology here = Topology::load().value();
  cr_expect(here.is_this_machine() && !here.allowed().empty() && here.slots() >= 1);
}
