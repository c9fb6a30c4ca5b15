// SPDX-License-Identifier: MIT OR Apache-2.0
#include "base/topology.h"

#include <fmt/format.h>
#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>

#include "base/cgroup.h"

namespace rlx {
namespace {

struct Name {
  std::string_view word;
  Locality locality;
};
// The first word of each kind is the one we print.
constexpr Name kNames[] = {{"node", Locality::kNode},      {"machine", Locality::kNode},
                           {"board", Locality::kNode},     {"package", Locality::kPackage},
                           {"socket", Locality::kPackage}, {"numa", Locality::kNuma},
                           {"l3", Locality::kL3},          {"l3cache", Locality::kL3},
                           {"l2", Locality::kL2},          {"l2cache", Locality::kL2},
                           {"l1", Locality::kL1},          {"l1cache", Locality::kL1},
                           {"core", Locality::kCore},      {"hwt", Locality::kThread},
                           {"hwthread", Locality::kThread}};

hwloc_obj_type_t hwloc_type(Locality locality) {
  switch (locality) {
    case Locality::kNode:
      return HWLOC_OBJ_MACHINE;
    case Locality::kPackage:
      return HWLOC_OBJ_PACKAGE;
    case Locality::kNuma:
      return HWLOC_OBJ_NUMANODE;
    case Locality::kL3:
      return HWLOC_OBJ_L3CACHE;
    case Locality::kL2:
      return HWLOC_OBJ_L2CACHE;
    case Locality::kL1:
      return HWLOC_OBJ_L1CACHE;
    case Locality::kCore:
      return HWLOC_OBJ_CORE;
    case Locality::kThread:
      break;
  }
  return HWLOC_OBJ_PU;
}

CpuSet from_bitmap(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (!bitmap || hwloc_bitmap_weight(bitmap) < 0) return set;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0; cpu = hwloc_bitmap_next(bitmap, cpu))
    set.add(static_cast<unsigned>(cpu));
  return set;
}

// The mask may be longer than cpu_set_t on large machines: the kernel says EINVAL until it fits.
CpuSet affinity_mask() {
  for (int n_cpus = 1024; n_cpus <= (1 << 16); n_cpus *= 4) {
    cpu_set_t* mask = CPU_ALLOC(n_cpus);
    const std::size_t size = CPU_ALLOC_SIZE(n_cpus);
    CpuSet set;
    const int rc = sched_getaffinity(0, size, mask);
    for (int cpu = 0; rc == 0 && cpu < n_cpus; ++cpu)
      if (CPU_ISSET_S(cpu, size, mask)) set.add(static_cast<unsigned>(cpu));
    CPU_FREE(mask);
    if (rc == 0 || errno != EINVAL) return set;
  }
  return {};
}

// hwloc's plugins (X11, OpenCL, libxml) cost more than the whole discovery, can stall on a dead
// display, and give nothing we use: PCI devices and XML come from its built-in parts.
class WithoutPlugins {
 public:
  WithoutPlugins() : ours_(setenv(kName, "/nonexistent", 0) == 0 && !was_set_) {}
  ~WithoutPlugins() {
    if (ours_) unsetenv(kName);
  }

 private:
  static constexpr const char* kName = "HWLOC_PLUGINS_PATH";
  static bool is_set() {
    for (char** entry = environ; *entry; ++entry)
      if (std::string_view(*entry).starts_with("HWLOC_PLUGINS_PATH=")) return true;
    return false;
  }
  bool was_set_ = is_set();
  bool ours_;
};

std::vector<Gpu> read_gpus(hwloc_topology_t topology) {
  constexpr unsigned kVga = 0x0300, k3d = 0x0302, kProcessing = 0x1200;
  constexpr unsigned kVendors[] = {0x10de, 0x1002, 0x8086};
  std::vector<Gpu> found;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_pcidev(topology, object)) != nullptr) {
    const auto& pci = object->attr->pcidev;
    const bool graphics =
        pci.class_id == kVga || pci.class_id == k3d || pci.class_id == kProcessing;
    if (!graphics ||
        std::find(std::begin(kVendors), std::end(kVendors), pci.vendor_id) == std::end(kVendors))
      continue;
    const hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(topology, object);
    found.push_back(
        {fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func),
         fmt::format("{:04x}:{:04x}", pci.vendor_id, pci.device_id),
         from_bitmap(host ? host->cpuset : nullptr)});
  }
  return found;
}

// A signature that any build on any machine computes alike (FNV-1a, 64 bits).
std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

Result<Locality> locality_from_name(std::string_view name) {
  for (const auto& row : kNames)
    if (row.word == name) return row.locality;
  return fail(Code::kInvalid, fmt::format("'{}' is not a part of a machine (node, package, numa, "
                                          "l3, l2, l1, core, hwt)",
                                          name));
}

std::string_view name_of(Locality locality) {
  for (const auto& row : kNames)
    if (row.locality == locality) return row.word;
  return "?";
}

void Topology::Free::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

Result<Topology> Topology::load(const TopologySource& source) {
  const auto loaded = std::make_shared<Loaded>();
  const WithoutPlugins without_plugins;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail_errno("hwloc cannot start");
  loaded->handle.reset(raw);
  Topology topology;
  topology.this_machine_ =
      source.xml_file.empty() && source.xml.empty() && source.synthetic.empty();
  if (!source.xml_file.empty() && hwloc_topology_set_xml(raw, source.xml_file.c_str()) != 0)
    return fail_errno(fmt::format("cannot read the topology file {}", source.xml_file));
  if (!source.xml.empty() && hwloc_topology_set_xmlbuffer(raw, source.xml.c_str(),
                                                          static_cast<int>(source.xml.size() + 1)))
    return fail(Code::kInvalid, "this is not a topology of hwloc in XML");
  if (!source.synthetic.empty() && hwloc_topology_set_synthetic(raw, source.synthetic.c_str()) != 0)
    return fail(Code::kInvalid,
                fmt::format("'{}' is not a synthetic topology of hwloc", source.synthetic));
  // On Linux this backend hops over all processors only to read what sysfs has written down.
  if (access("/sys/devices/system/cpu/cpu0/cache", R_OK) == 0)
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
  if (source.devices) hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  if (hwloc_topology_load(raw) != 0)
    return fail_errno(topology.this_machine_ ? "hwloc cannot read this machine"
                                             : fmt::format("cannot read the topology {}{}",
                                                           source.xml_file, source.synthetic));
  read_objects(*loaded);
  topology.loaded_ = loaded;
  if (topology.this_machine_) return topology.within(affinity_mask(), cgroup_cpu_quota());
  return topology.within({}, 0);
}

Topology Topology::within(const CpuSet& allowed, double quota) const {
  Topology topology = *this;
  topology.allowed_ = loaded_->machine & allowed;
  if (topology.allowed_.empty()) topology.allowed_ = loaded_->machine;
  topology.quota_ = quota;
  return topology;
}

void Topology::read_objects(Loaded& loaded) {
  const hwloc_topology_t raw = loaded.handle.get();
  loaded.machine = from_bitmap(hwloc_topology_get_topology_cpuset(raw));
  std::string text = loaded.machine.text();
  for (std::size_t kind = 0; kind < loaded.domains.size(); ++kind) {
    const hwloc_obj_type_t type = hwloc_type(static_cast<Locality>(kind));
    auto& domains = loaded.domains[kind];
    hwloc_obj_t object = nullptr;
    while ((object = hwloc_get_next_obj_by_type(raw, type, object)) != nullptr) {
      CpuSet set = from_bitmap(object->cpuset);
      // Memory without cpus is no place to run; two kinds of memory at the same cpus are one place.
      if (set.empty() || std::find(domains.begin(), domains.end(), set) != domains.end()) continue;
      text += fmt::format(" {}{}", kind, set.text());
      domains.push_back(std::move(set));
    }
  }
  loaded.gpus = read_gpus(raw);
  for (const auto& gpu : loaded.gpus)
    text += fmt::format(" {} {} {}", gpu.pci, gpu.name, gpu.near.text());
  loaded.signature = fmt::format("{:016x}", fnv1a(text));
}

std::vector<CpuSet> Topology::domains(Locality locality) const {
  std::vector<CpuSet> found;
  for (const auto& domain : loaded_->domains[static_cast<std::size_t>(locality)])
    if (CpuSet set = domain & allowed_; !set.empty()) found.push_back(std::move(set));
  if (found.empty()) found.push_back(allowed_);
  return found;
}

int Topology::core_count() const { return static_cast<int>(domains(Locality::kCore).size()); }

int Topology::slots() const {
  const int cores = core_count();
  if (quota_ <= 0) return cores;
  return std::max(1, std::min(cores, static_cast<int>(std::ceil(quota_))));
}

std::vector<Gpu> Topology::gpus() const {
  auto gpus = loaded_->gpus;
  for (auto& gpu : gpus) gpu.near = gpu.near & allowed_;
  return gpus;
}

Result<std::string> Topology::xml() const {
  char* text = nullptr;
  int size = 0;
  if (hwloc_topology_export_xmlbuffer(handle(), &text, &size, 0) != 0)
    return fail_errno("hwloc cannot write this machine as XML");
  std::string xml(text, static_cast<std::size_t>(std::max(size - 1, 0)));  // without the final 0
  hwloc_free_xmlbuffer(handle(), text);
  return xml;
}

}  // namespace rlx
