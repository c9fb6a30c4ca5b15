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
constexpr Name kNames[] = {
    {"node", Locality::kNode},       {"machine", Locality::kNode},   {"board", Locality::kNode},
    {"package", Locality::kPackage}, {"socket", Locality::kPackage}, {"numa", Locality::kNuma},
    {"l3", Locality::kL3},           {"l3cache", Locality::kL3},     {"core", Locality::kCore},
    {"hwt", Locality::kThread},      {"hwthread", Locality::kThread}};

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

}  // namespace

Result<Locality> locality_from_name(std::string_view name) {
  for (const auto& row : kNames)
    if (row.word == name) return row.locality;
  return fail(Code::kInvalid, fmt::format("'{}' is not a part of a machine (node, package, numa, "
                                          "l3, core, hwt)",
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
Topology::Topology() = default;
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;
Topology::~Topology() = default;
hwloc_topology* Topology::handle() const { return handle_.get(); }

Result<Topology> Topology::load(const TopologySource& source) {
  Topology topology;
  const WithoutPlugins without_plugins;
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return fail_errno("hwloc cannot start");
  topology.handle_.reset(raw);
  topology.this_machine_ = source.xml_file.empty() && source.synthetic.empty();
  if (!source.xml_file.empty() && hwloc_topology_set_xml(raw, source.xml_file.c_str()) != 0)
    return fail_errno(fmt::format("cannot read the topology file {}", source.xml_file));
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
  const CpuSet machine = from_bitmap(hwloc_topology_get_topology_cpuset(raw));
  topology.allowed_ = topology.this_machine_ ? machine & affinity_mask() : machine;
  if (topology.allowed_.empty()) topology.allowed_ = machine;
  if (topology.this_machine_) topology.quota_ = cgroup_cpu_quota();
  return topology;
}

std::vector<CpuSet> Topology::domains(Locality locality) const {
  std::vector<CpuSet> found;
  const hwloc_obj_type_t type = hwloc_type(locality);
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_obj_by_type(handle(), type, object)) != nullptr) {
    CpuSet set = from_bitmap(object->cpuset) & allowed_;
    if (!set.empty()) found.push_back(std::move(set));
  }
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
  constexpr unsigned kVga = 0x0300, k3d = 0x0302, kProcessing = 0x1200;
  constexpr unsigned kVendors[] = {0x10de, 0x1002, 0x8086};
  std::vector<Gpu> found;
  hwloc_obj_t object = nullptr;
  while ((object = hwloc_get_next_pcidev(handle(), object)) != nullptr) {
    const auto& pci = object->attr->pcidev;
    const bool graphics =
        pci.class_id == kVga || pci.class_id == k3d || pci.class_id == kProcessing;
    if (!graphics ||
        std::find(std::begin(kVendors), std::end(kVendors), pci.vendor_id) == std::end(kVendors))
      continue;
    const hwloc_obj_t host = hwloc_get_non_io_ancestor_obj(handle(), object);
    found.push_back(
        {fmt::format("{:04x}:{:02x}:{:02x}.{:x}", pci.domain, pci.bus, pci.dev, pci.func),
         fmt::format("{:04x}:{:04x}", pci.vendor_id, pci.device_id),
         from_bitmap(host ? host->cpuset : nullptr) & allowed_});
  }
  return found;
}

}  // namespace rlx
