// SPDX-License-Identifier: MIT OR Apache-2.0
// Cost: O(n + R log n + P log P) a layer for n experts, P = n + R slots, G ranks.
// Source: DeepSeek EPLB (2025), restated from its description.   Tested by test/sched/test_eplb.cc
#include "sched/eplb.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

namespace rlx::sched {
namespace {

// Longest first into the lightest pack that has room. Returns, pack by pack, the items in the
// order they arrived; one item a pack stays where it is.
std::vector<int> pack_balanced(std::span<const double> weight, int packs) {
  const int items = static_cast<int>(weight.size()), room = items / packs;
  std::vector<int> order(items);
  std::iota(order.begin(), order.end(), 0);
  if (room == 1) return order;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return weight[a] > weight[b]; });
  std::vector<int> packed(items), filled(packs);
  using Pack = std::pair<double, int>;  // weight so far, index
  std::priority_queue<Pack, std::vector<Pack>, std::greater<>> open;
  for (int p = 0; p < packs; ++p) open.emplace(0, p);
  for (int item : order) {
    const auto [total, p] = open.top();
    open.pop();
    packed[p * room + filled[p]++] = item;
    if (filled[p] < room) open.emplace(total + weight[item], p);
  }
  return packed;
}

// One replica each, then one more for whoever has the most load a replica.
std::vector<int> replicate(std::span<const double> weight, int slots, std::vector<int>& copies) {
  const int n = static_cast<int>(weight.size());
  std::vector<int> item(slots);
  std::iota(item.begin(), item.begin() + n, 0);
  copies.assign(n, 1);
  std::vector<std::pair<double, int>> shares;  // load a replica, -expert: ties to the lower one
  for (int e = 0; e < n; ++e) shares.emplace_back(weight[e], -e);
  std::priority_queue queue(std::less<>(), std::move(shares));
  for (int i = n; i < slots; ++i) {
    const int e = -queue.top().second;
    queue.pop();
    item[i] = e;
    queue.emplace(weight[e] / ++copies[e], -e);
  }
  return item;
}

struct Shape {
  int groups, nodes, ranks, slots;
};

void plan_layer(std::span<const double> load, const Shape& shape, std::span<int32_t> slot_expert) {
  const int n = static_cast<int>(load.size()), group_size = n / shape.groups;
  std::vector<double> group_load(shape.groups);
  for (int e = 0; e < n; ++e) group_load[e / group_size] += load[e];
  const std::vector<int> groups = pack_balanced(group_load, shape.nodes);
  const int n_node = n / shape.nodes, slots_node = shape.slots / shape.nodes;
  std::vector<int> expert(n_node), copies;
  std::vector<double> weight(n_node), share(slots_node);
  for (int d = 0; d < shape.nodes; ++d) {
    for (int i = 0; i < n_node; ++i) {
      expert[i] = groups[(d * n_node + i) / group_size] * group_size + i % group_size;
      weight[i] = load[expert[i]];
    }
    const std::vector<int> item = replicate(weight, slots_node, copies);
    for (int i = 0; i < slots_node; ++i) share[i] = weight[item[i]] / copies[item[i]];
    const std::vector<int> packed = pack_balanced(share, shape.ranks / shape.nodes);
    for (int i = 0; i < slots_node; ++i) slot_expert[d * slots_node + i] = expert[item[packed[i]]];
  }
}

bool even_nodes(const Cluster& cluster) {
  std::vector<int> ranks(cluster.nodes());
  for (int node : cluster.node_of) ++ranks[node];
  return std::all_of(ranks.begin(), ranks.end(), [&](int n) { return n == ranks[0]; });
}

}  // namespace

Result<Placement> deepseek_eplb(const Loads& loads, const Cluster& cluster, int groups) {
  RLX_TRY(check_loads(loads));
  Shape shape{groups, cluster.nodes(), cluster.ranks(), cluster.slots()};
  if (shape.slots < loads.experts)
    return fail(Code::kInvalid, fmt::format("{} slots for {} experts: want a slot for each",
                                            shape.slots, loads.experts));
  if (shape.slots % shape.ranks || !cluster.uniform())
    return fail(Code::kUnsupported,
                fmt::format("policy deepseek wants the same number of slots and the same speed on "
                            "every rank ({} slots on {} ranks given); use policy search",
                            shape.slots, shape.ranks));
  if (groups < 1 || loads.experts % groups)
    return fail(Code::kInvalid,
                fmt::format("{} experts do not divide into {} groups", loads.experts, groups));
  if (groups % shape.nodes || !even_nodes(cluster)) shape.groups = shape.nodes = 1;
  Placement plan{loads.layers, shape.slots,
                 std::vector<int32_t>(size_t(loads.layers) * shape.slots)};
  for (int l = 0; l < loads.layers; ++l) plan_layer(loads.row(0, l), shape, plan.row(l));
  return plan;
}

}  // namespace rlx::sched
