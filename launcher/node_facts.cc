// SPDX-License-Identifier: MIT OR Apache-2.0
#include "launcher/node_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "launcher/gpu_probe.h"

namespace rlx::launcher {
namespace {

constexpr std::size_t kMaxXml = 64 << 20, kMaxText = 64 << 10, kMaxItems = 256;

bool has_quota(const Topology& topology) {
  return topology.quota() > 0 && topology.quota() < topology.core_count();
}

// Where the number comes from that counts when nobody wrote one.
std::string cores_text(const Topology& topology) {
  return has_quota(topology)
             ? fmt::format("a control group allows {:g} of its cpus", topology.quota())
             : fmt::format("its cores we may use: cpus {}", topology.allowed().text());
}

// Why there are fewer than somebody wrote.
std::string cap_text(const Topology& topology) {
  return has_quota(topology)
             ? fmt::format("capped by a control group, which allows {:g} cpus", topology.quota())
             : fmt::format("capped by its cores, cpus {}", topology.allowed().text());
}

}  // namespace

NodeFacts facts_of(const Topology& topology, const Environment& environment,
                   const std::string& hostname) {
  NodeFacts facts;
  facts.hostname = hostname;
  facts.signature = topology.signature();
  facts.allowed = topology.allowed();
  facts.quota = topology.quota();
  for (const auto& names : {std::span<const std::string_view>(kGpuVariables),
                            std::span<const std::string_view>(kGpuHints)})
    for (const auto name : names)
      if (const auto value = environment.get(name))
        facts.visible.push_back(fmt::format("{}={}", name, *value));
  if (!topology.gpus().empty()) facts.gpus = read_gpu_facts();
  return facts;
}

std::string encode(const NodeFacts& facts) {
  ByteWriter out;
  out.put_string(facts.hostname);
  out.put_string(facts.signature);
  out.put_string(facts.xml);
  out.put_string(facts.allowed.text());
  out.put(facts.quota);
  out.put(static_cast<std::uint32_t>(facts.visible.size()));
  for (const auto& variable : facts.visible) out.put_string(variable);
  out.put(static_cast<std::uint32_t>(facts.gpus.size()));
  for (const auto& gpu : facts.gpus) {
    out.put_string(gpu.pci);
    out.put_string(gpu.uuid);
    out.put(gpu.minor);
    out.put(static_cast<std::uint32_t>(gpu.migs.size()));
    for (const auto& mig : gpu.migs) out.put_string(mig);
  }
  return out.take();
}

Result<NodeFacts> decode_node_facts(std::string_view bytes) {
  ByteReader in(bytes);
  NodeFacts facts;
  bool good = true;
  const auto text = [&](std::size_t most) {
    const auto word = in.get_string();
    good &= word.size() <= most;
    return std::string(word.substr(0, most));
  };
  facts.hostname = text(kMaxText);
  facts.signature = text(kMaxText);
  facts.xml = text(kMaxXml);
  const auto allowed = CpuSet::parse(text(kMaxText));
  facts.quota = in.get<double>();
  const auto each = [&](const auto& read) {
    const auto n = in.get<std::uint32_t>();
    good &= n <= kMaxItems;
    for (std::uint32_t i = 0; good && in.ok() && i < n; ++i) read();
  };
  each([&] { facts.visible.push_back(text(kMaxText)); });
  each([&] {
    auto& gpu = facts.gpus.emplace_back();
    gpu.pci = text(kMaxText);
    gpu.uuid = text(kMaxText);
    gpu.minor = in.get<std::uint32_t>();
    each([&] { gpu.migs.push_back(text(kMaxText)); });
  });
  if (!good || !allowed || !in.at_end() || !(facts.quota >= 0))
    return fail(Code::kInvalid, "these are not the facts of a node, as this version writes them");
  facts.allowed = *allowed;
  return facts;
}

Result<Topology> Topologies::of(const NodeFacts& facts) {
  auto known = known_.find(facts.signature);
  if (known == known_.end()) {
    if (facts.xml.empty())
      return fail(Code::kInvalid,
                  fmt::format("{} sent no topology for {}", facts.hostname, facts.signature));
    TopologySource source;
    source.xml = facts.xml;
    source.devices = true;
    RLX_TRY_ASSIGN(auto topology, Topology::load(source));
    if (topology.signature() != facts.signature)
      return fail(Code::kInvalid,
                  fmt::format("the topology of {} has signature {}, not {}", facts.hostname,
                              topology.signature(), facts.signature));
    known = known_.emplace(facts.signature, std::move(topology)).first;
  }
  return known->second.within(facts.allowed, facts.quota);
}

Result<std::vector<Host>> hosts_of(const Allocation& allocation, std::span<const NodeFacts> facts,
                                   Topologies& topologies) {
  std::vector<Host> hosts;
  for (std::size_t i = 0; i < allocation.hosts.size(); ++i) {
    const HostEntry& entry = allocation.hosts[i];
    RLX_TRY_ASSIGN(auto topology, topologies.of(facts[i]));
    const int cores = topology.slots();
    const bool capped = entry.at_most_cores && entry.slots > cores;
    const int slots = capped || entry.slots == 0 ? cores : entry.slots;
    std::string source = entry.slots == 0 ? cores_text(topology) : entry.source;
    if (capped) source += ", " + cap_text(topology);
    hosts.push_back({entry.name, slots, std::move(source), allocation.named, topology,
                     entry.max_slots,
                     visible_gpus(topology.gpus(), facts[i].gpus, facts[i].visible)});
  }
  return hosts;
}

}  // namespace rlx::launcher
