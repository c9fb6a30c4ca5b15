// SPDX-License-Identifier: MIT OR Apache-2.0
// Which GPUs a process may use, by what the node has and by the lists that a resource manager or a
// user exported, and what a rank must be told to see some of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_set.h"
#include "base/topology.h"

namespace rlx::launcher {

// What a driver says of a GPU beyond the PCI bus.
struct GpuFact {
  std::string pci;                // "0000:3b:00.0"
  std::string uuid;               // "GPU-…", "": not known
  std::uint32_t minor = 0;        // of /dev/nvidiaN, by which Slurm numbers them
  std::vector<std::string> migs;  // uuids of its partitions, if it is partitioned
};

// "CUDA_VISIBLE_DEVICES" and its entries.
struct GpuList {
  std::string variable;
  std::vector<std::string> entries;
  // It counts from 0 among what the list before it leaves, as HIP does within ROCm.
  bool is_relative = false;
};

struct VisibleGpu {
  std::string entry;  // as it is written in the list: "2", "GPU-…", "MIG-…"
  std::string pci;    // "": not known
  CpuSet near;        // cpus closest to it, empty: not known
};

struct GpuSet {
  std::vector<VisibleGpu> gpus;  // in the order a program counts them
  // The lists that show a process these GPUs, one entry each: the one its programs read first, then
  // others that are set alike. To restrict a rank, each gets some of its entries.
  std::vector<GpuList> lists;
  // Lists that are set, as they are: they hold for ranks on the node, whatever is set elsewhere.
  std::vector<std::string> environment;  // "NAME=value"
  bool orders_by_pci = false;            // CUDA must count by PCI address for entries to be right
};

// Variables that say which GPUs a process may use, or what their numbers mean.
inline constexpr std::string_view kGpuVariables[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                                     "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
                                                     "GPU_DEVICE_ORDINAL"};
inline constexpr std::string_view kGpuHints[] = {"CUDA_DEVICE_ORDER", "SLURM_STEP_GPUS",
                                                 "SLURM_JOB_GPUS"};

// `gpus` are those of the PCI bus, `facts` what is known of them, `variables` those of the node's
// daemon, as "NAME=value". Never more than an exported list names; an empty one means none.
GpuSet visible_gpus(const std::vector<Gpu>& gpus, const std::vector<GpuFact>& facts,
                    const std::vector<std::string>& variables);

// The variables of a rank that shall see only these, by their indexes in GpuSet::gpus.
std::vector<std::string> show_only(const GpuSet& set, const std::vector<std::uint32_t>& chosen);

}  // namespace rlx::launcher
