// SPDX-License-Identifier: MIT OR Apache-2.0
// The machine as a tree (hwloc): which hardware threads this process may use, what they share, and
// where GPUs are attached.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/result.h"

struct hwloc_topology;

namespace rlx {

// Kinds of objects, from large to small.
enum class Locality { kNode, kPackage, kNuma, kL3, kL2, kL1, kCore, kThread };
inline constexpr std::size_t kLocalities = 8;

// "package", "numa", ... and the names other launchers use ("socket", "l3cache", "hwthread").
Result<Locality> locality_from_name(std::string_view name);
std::string_view name_of(Locality locality);

struct Gpu {
  std::string pci;   // "0000:3b:00.0"
  std::string name;  // vendor and device numbers, "10de:2336"
  CpuSet near;       // hardware threads closest to it
};

struct TopologySource {
  std::string xml_file;   // as lstopo writes it
  std::string xml;        // the same as text
  std::string synthetic;  // as hwloc reads it: "pack:2 numa:2 core:8 pu:2"
  bool devices = false;   // look for GPUs too (slower)
};

// Copies share what was loaded: hosts alike need it once.
class Topology {
 public:
  // Without a file, text or synthetic description: this machine. Briefly sets HWLOC_PLUGINS_PATH:
  // call it while no other thread reads the environment.
  static Result<Topology> load(const TopologySource& source = {});
  // The same machine for a process that may use these cpus only (all of them when empty) and so
  // much of their time.
  Topology within(const CpuSet& allowed, double quota) const;

  // What this process may use: the machine within its affinity mask (which holds the cpuset of its
  // control group). Everything for a described machine.
  const CpuSet& allowed() const { return allowed_; }
  // Objects of one kind in the machine's order, each cut down to allowed(); objects left empty are
  // dropped. Where the machine has no such object (no NUMA, no caches) it counts as one object.
  std::vector<CpuSet> domains(Locality locality) const;
  int core_count() const;
  // CPUs' worth of time the control group grants, 0: no limit.
  double quota() const { return quota_; }
  // Ranks that can compute at once: allowed cores, or fewer by quota. At least 1.
  int slots() const;
  std::vector<Gpu> gpus() const;
  bool is_this_machine() const { return this_machine_; }
  hwloc_topology* handle() const { return loaded_->handle.get(); }
  // For another process to load. The whole machine, whatever is allowed.
  Result<std::string> xml() const;
  // Two machines of the same signature have the same objects and GPUs at the same places.
  const std::string& signature() const { return loaded_->signature; }

 private:
  struct Free {
    void operator()(hwloc_topology* topology) const;
  };
  struct Loaded {
    std::unique_ptr<hwloc_topology, Free> handle;
    CpuSet machine;
    std::array<std::vector<CpuSet>, kLocalities> domains;  // by Locality, of the whole machine
    std::vector<Gpu> gpus;
    std::string signature;
  };
  Topology() = default;
  static void read_objects(Loaded& loaded);
  std::shared_ptr<const Loaded> loaded_;
  CpuSet allowed_;
  double quota_ = 0;
  bool this_machine_ = true;
};

}  // namespace rlx
