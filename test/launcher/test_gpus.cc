// SPDX-License-Identifier: MIT OR Apache-2.0
// Which GPUs there are and may be used.
#include <criterion/criterion.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "launcher/gpu_probe.h"
#include "launcher/gpus.h"
#include "test/launcher/launch.h"

using namespace rlx;
using namespace rlx::launcher;
using rlx::test::expect_same;

// As much of NVIDIA's management library as rlxrun calls: two GPUs, the second in two partitions.
// NOLINTBEGIN(readability-identifier-naming): the names are the library's.
#define NVML extern "C" __attribute__((visibility("default"))) int
struct NvmlPci {
  char legacy_id[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char id[32];
};
static const char* g_uuids[] = {"GPU-a", "GPU-b", "MIG-x", "MIG-y"};
static int nvml_is_open = 0;
NVML nvmlInit_v2() { return nvml_is_open++ * 0; }
NVML nvmlShutdown() { return --nvml_is_open * 0; }
NVML nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }
NVML nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  return *device = &g_uuids[index], 0;
}
static std::size_t index_of(void* device) {
  return static_cast<std::size_t>(static_cast<const char**>(device) - g_uuids);
}
NVML nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  return std::snprintf(text, size, "%s", g_uuids[index_of(device)]) < 0;
}
NVML nvmlDeviceGetPciInfo_v3(void* device, NvmlPci* pci) {
  pci->domain = 1;
  pci->bus = 0x3b + static_cast<unsigned>(index_of(device));
  return 0;
}
NVML nvmlDeviceGetMinorNumber(void* device, unsigned* minor) {
  return *minor = 4 + static_cast<unsigned>(index_of(device)), 0;
}
NVML nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* most) {
  return *most = index_of(device) == 1 ? 7 : 0, 0;
}
NVML nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** device) {
  constexpr int kNotFound = 6;
  return index < 2 ? nvmlDeviceGetHandleByIndex_v2(2 + index, device) : kNotFound;
}
// NOLINTEND(readability-identifier-naming)

Test(gpus, are_those_that_exported_lists_leave) {
  std::vector<Gpu> four;
  std::vector<GpuFact> facts;
  for (unsigned i = 0; i < 4; ++i) {
    CpuSet near;
    near.add(i);
    four.push_back({fmt::format("0000:{}0:00.0", i + 1), "10de:2330", near});
    facts.push_back({four.back().pci, fmt::format("GPU-{0}{0}{0}{0}-x", i), i, {}});
  }
  std::vector<GpuFact> partitioned = facts;
  partitioned[1].migs = {"MIG-aa", "MIG-bb"};
  const std::vector<Gpu> amd{{"0000:10:00.0", "1002:740f", {}}, {"0000:20:00.0", "1002:740f", {}}};
  const struct {
    const std::vector<Gpu>& gpus;
    std::vector<GpuFact> facts;
    std::vector<std::string> variables;
    const char* wanted;  // entry@near of each, and what shows the last alone
  } table[] = {
      {four, {}, {}, "0@0 1@1 2@2 3@3: CUDA_VISIBLE_DEVICES=3 CUDA_DEVICE_ORDER=PCI_BUS_ID"},
      {four,
       facts,
       {},
       "GPU-0000-x@0 GPU-1111-x@1 GPU-2222-x@2 GPU-3333-x@3: "
       "CUDA_VISIBLE_DEVICES=GPU-3333-x"},
      {four,
       facts,
       {"CUDA_VISIBLE_DEVICES=2,1"},
       "2@2 1@1: CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID"},
      {four,
       facts,
       {"CUDA_VISIBLE_DEVICES=2,1", "CUDA_DEVICE_ORDER=FASTEST_FIRST"},
       "2@2 1@1: CUDA_VISIBLE_DEVICES=1"},
      {four,
       facts,
       {"CUDA_VISIBLE_DEVICES=GPU-22,GPU-0000-x"},
       "GPU-22@2 GPU-0000-x@0: CUDA_VISIBLE_DEVICES=GPU-0000-x"},
      {four,
       partitioned,
       {},
       "GPU-0000-x@0 MIG-aa@1 MIG-bb@1 GPU-2222-x@2 GPU-3333-x@3: "
       "CUDA_VISIBLE_DEVICES=GPU-3333-x"},
      {four,
       partitioned,
       {"CUDA_VISIBLE_DEVICES=MIG-bb,MIG-GPU-3333-x/1/0"},
       "MIG-bb@1 MIG-GPU-3333-x/1/0@3: CUDA_VISIBLE_DEVICES=MIG-GPU-3333-x/1/0"},
      {four, facts, {"CUDA_VISIBLE_DEVICES="}, ""},
      {four, facts, {"CUDA_VISIBLE_DEVICES=-1"}, ""},
      {four,
       facts,
       {"CUDA_VISIBLE_DEVICES=3,-1,2"},
       "3@3: CUDA_VISIBLE_DEVICES=3 CUDA_DEVICE_ORDER=PCI_BUS_ID"},
      {four, facts, {"CUDA_VISIBLE_DEVICES=NoDevFiles"}, ""},
      // Counted from 0 within a control group; Slurm says which they are.
      {four,
       facts,
       {"CUDA_VISIBLE_DEVICES=0,1", "SLURM_STEP_GPUS=2,3"},
       "0@2 1@3: CUDA_VISIBLE_DEVICES=1 CUDA_DEVICE_ORDER=PCI_BUS_ID"},
      // A container whose driver shows two of them.
      {four,
       {facts[1], facts[3]},
       {},
       "GPU-1111-x@1 GPU-3333-x@3: CUDA_VISIBLE_DEVICES=GPU-3333-x"},
      {amd, {}, {}, "0@ 1@: ROCR_VISIBLE_DEVICES=1"},
      {amd, {}, {"HIP_VISIBLE_DEVICES=1"}, "1@: HIP_VISIBLE_DEVICES=1"},
      {amd, {}, {"CUDA_VISIBLE_DEVICES=1"}, "1@: CUDA_VISIBLE_DEVICES=1"},
      // HIP counts among what ROCm shows.
      {amd,
       {},
       {"ROCR_VISIBLE_DEVICES=1,0", "HIP_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES=0,1"},
       "0@: ROCR_VISIBLE_DEVICES=0 CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=0"},
      // No GPU to be seen, but lists of a resource manager.
      {{},
       {},
       {"CUDA_VISIBLE_DEVICES=2,3", "ROCR_VISIBLE_DEVICES=2,3", "ZE_AFFINITY_MASK=0"},
       "2@ 3@: CUDA_VISIBLE_DEVICES=3 ROCR_VISIBLE_DEVICES=3 CUDA_DEVICE_ORDER=PCI_BUS_ID"},
      {{}, {}, {"ZE_AFFINITY_MASK=0.0,0.1"}, "0.0@ 0.1@: ZE_AFFINITY_MASK=0.1"},
      {{}, {}, {}, ""},
  };
  for (const auto& row : table) {
    const GpuSet set = visible_gpus(row.gpus, row.facts, row.variables);
    std::vector<std::string> seen;
    for (const auto& gpu : set.gpus) seen.push_back(gpu.entry + "@" + gpu.near.text());
    std::string text = fmt::format("{}", fmt::join(seen, " "));
    if (!set.gpus.empty())
      text += fmt::format(
          ": {}",
          fmt::join(show_only(set, {static_cast<std::uint32_t>(set.gpus.size() - 1)}), " "));
    expect_same(text, row.wanted, fmt::format("{}", fmt::join(row.variables, " ")));
  }
}

Test(gpus, are_read_from_the_files_of_their_driver) {
  const test::TempDir root;
  const auto put = [&](const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root / file).parent_path());
    std::ofstream(root / file) << text;
  };
  cr_expect(!may_have_gpus(root.path()) && read_gpu_facts(root.path()).empty());
  put("proc/driver/nvidia/gpus/0000:3b:00.0/information",
      "Model: \t\t NVIDIA H200\nIRQ:   \t\t 18\nGPU UUID: \t GPU-01234567-89ab\nDevice Minor: \t "
      "5\n");
  cr_expect(may_have_gpus(root.path()));
  const auto facts = read_gpu_facts(root.path());
  cr_assert_eq(facts.size(), 1u);
  expect_same(facts[0].pci, "0000:3b:00.0");
  expect_same(facts[0].uuid, "GPU-01234567-89ab");
  cr_expect_eq(facts[0].minor, 5u);
  // A partitioned GPU is told of by the library only.
  put("proc/driver/nvidia/capabilities/gpu5/mig/gi1/access", "");
  const auto parts = read_gpu_facts(root.path(), nullptr);
  cr_assert_eq(parts.size(), 2u);
  expect_same(
      fmt::format("{} {} {} {}", parts[1].pci, parts[1].uuid, parts[1].minor, parts[1].migs),
      "0001:3c:00.0 GPU-b 5 [\"MIG-x\", \"MIG-y\"]");
  cr_expect(parts[0].migs.empty() && nvml_is_open == 0);
  cr_expect_eq(read_gpu_facts(root.path(), "libnowhere.so.7").size(), 1u);
}
