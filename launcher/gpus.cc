// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: CUDA C++ Programming Guide, "CUDA Environment Variables"; ROCm "GPU isolation
// techniques"; Level Zero "Affinity Mask"; srun(1) on GPU variables.
#include "launcher/gpus.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "base/words.h"

namespace rlx::launcher {
namespace {

using Variables = std::map<std::string, std::string>;

struct Device {
  Gpu gpu;
  GpuFact fact;
};

// Programs see what stands before the first entry that names nothing.
std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries;
  for (const auto& part : split(list, ',')) {
    const auto word = trimmed(part);
    if (word.empty() || word.starts_with('-') || word == "NoDevFiles") break;
    entries.emplace_back(word);
  }
  return entries;
}

std::optional<std::size_t> number_of(std::string_view word) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The GPUs of one vendor, in the order of their PCI addresses: a display of another vendor beside
// them is not for computing. Where the driver shows fewer than the bus (in a container), those.
std::vector<Device> devices_of(const std::vector<Gpu>& gpus, const std::vector<GpuFact>& facts,
                               std::string& vendor) {
  for (const char* candidate : {"10de", "1002", "8086"}) {
    std::vector<Device> devices, known;
    for (const auto& gpu : gpus) {
      if (!gpu.name.starts_with(candidate)) continue;
      const auto fact = std::find_if(facts.begin(), facts.end(),
                                     [&](const GpuFact& f) { return f.pci == gpu.pci; });
      devices.push_back({gpu, fact == facts.end() ? GpuFact{} : *fact});
      if (fact != facts.end()) known.push_back(devices.back());
    }
    if (devices.empty()) continue;
    vendor = candidate;
    auto& chosen = known.empty() ? devices : known;
    std::sort(chosen.begin(), chosen.end(),
              [](const Device& a, const Device& b) { return a.gpu.pci < b.gpu.pci; });
    return chosen;
  }
  return {};
}

// The variable that programs for these GPUs read.
std::string variable_for(const std::string& vendor, const Variables& set) {
  if (vendor == "10de") return "CUDA_VISIBLE_DEVICES";
  if (vendor == "1002") {  // its HIP also reads CUDA's
    for (const char* name : {"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"})
      if (set.contains(name)) return name;
    return "ROCR_VISIBLE_DEVICES";
  }
  if (vendor == "8086") return "ZE_AFFINITY_MASK";
  for (const auto name : kGpuVariables)  // a list of GPUs we cannot see
    if (set.contains(std::string(name))) return std::string(name);
  return "";
}

// Where a resource manager also tells the numbers of the node's devices, entries may count from 0
// among those it left open.
std::vector<std::string> physical_entries(const std::vector<std::string>& entries,
                                          const Variables& set) {
  for (const char* name : {"SLURM_STEP_GPUS", "SLURM_JOB_GPUS"})
    if (const auto found = set.find(name); found != set.end())
      if (auto physical = entries_of(found->second); physical.size() == entries.size())
        return physical;
  return entries;
}

const Device* device_of(const std::string& entry, const std::vector<Device>& devices) {
  const auto by_uuid = [&](std::string_view prefix) -> const Device* {
    const auto found = std::find_if(devices.begin(), devices.end(), [&](const Device& device) {
      return device.fact.uuid.starts_with(prefix);
    });
    return found == devices.end() ? nullptr : &*found;
  };
  if (entry.starts_with("GPU-")) return by_uuid(entry);
  if (entry.starts_with("MIG-GPU-"))  // the older form: parent/instance/instance
    return by_uuid(std::string_view(entry).substr(4, entry.find('/') - 4));
  if (entry.starts_with("MIG-")) {
    for (const auto& device : devices)
      for (const auto& mig : device.fact.migs)
        if (mig.starts_with(entry)) return &device;
    return nullptr;
  }
  const auto number = number_of(std::string_view(entry).substr(0, entry.find('.')));  // "0.1": tile
  if (!number) return nullptr;
  for (const auto& device : devices)
    if (!device.fact.uuid.empty() && device.fact.minor == *number) return &device;
  return *number < devices.size() ? &devices[*number] : nullptr;
}

// HIP counts among the devices that ROCm was told to show: what is left of those entries.
std::vector<std::string> within(const std::vector<std::string>& entries, const Variables& set) {
  const auto list = set.find("HIP_VISIBLE_DEVICES");
  if (list == set.end()) return entries;
  std::vector<std::string> left;
  for (const auto& entry : entries_of(list->second)) {
    const auto number = number_of(entry);
    if (!number || *number >= entries.size()) break;
    left.push_back(entries[*number]);
  }
  return left;
}

// Without a list all devices are there, named so that no order of counting can mix them up.
std::vector<VisibleGpu> all_of(const std::vector<Device>& devices) {
  std::vector<VisibleGpu> gpus;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& [gpu, fact] = devices[i];
    for (const auto& mig : fact.migs) gpus.push_back({mig, gpu.pci, gpu.near});
    if (fact.migs.empty())
      gpus.push_back({fact.uuid.empty() ? std::to_string(i) : fact.uuid, gpu.pci, gpu.near});
  }
  return gpus;
}

}  // namespace

GpuSet visible_gpus(const std::vector<Gpu>& gpus, const std::vector<GpuFact>& facts,
                    const std::vector<std::string>& variables) {
  Variables set;
  GpuSet visible;
  for (const auto& entry : variables) {
    const auto equals = std::min(entry.find('='), entry.size() - 1);
    const std::string name = entry.substr(0, equals);
    set[name] = entry.substr(equals + 1);
    if (std::find(std::begin(kGpuVariables), std::end(kGpuVariables), name) !=
        std::end(kGpuVariables))
      visible.environment.push_back(entry);
  }
  std::string vendor;
  const auto devices = devices_of(gpus, facts, vendor);
  const std::string first = variable_for(vendor, set);
  if (first.empty()) return visible;
  const bool is_rocm = first == "ROCR_VISIBLE_DEVICES";
  std::vector<std::string> entries;
  if (const auto list = set.find(first); list != set.end()) {
    entries = entries_of(list->second);
    if (is_rocm) entries = within(entries, set);
    const auto physical = physical_entries(entries, set);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const Device* device = device_of(physical[i], devices);
      visible.gpus.push_back(
          {entries[i], device ? device->gpu.pci : "", device ? device->gpu.near : CpuSet()});
    }
  } else {
    visible.gpus = all_of(devices);
    for (const auto& gpu : visible.gpus) entries.push_back(gpu.entry);
  }
  visible.lists.push_back({first, std::move(entries), false});
  for (const auto name : kGpuVariables) {
    const auto list = set.find(std::string(name));
    if (list == set.end() || name == first) continue;
    auto others = entries_of(list->second);
    const bool relative = is_rocm && name != "ZE_AFFINITY_MASK";
    if (relative || others.size() == visible.gpus.size())
      visible.lists.push_back({std::string(name), std::move(others), relative});
  }
  visible.orders_by_pci =
      vendor != "1002" && first == "CUDA_VISIBLE_DEVICES" && !set.contains("CUDA_DEVICE_ORDER") &&
      std::any_of(visible.gpus.begin(), visible.gpus.end(),
                  [](const VisibleGpu& gpu) { return number_of(gpu.entry).has_value(); });
  return visible;
}

std::vector<std::string> show_only(const GpuSet& set, const std::vector<std::uint32_t>& chosen) {
  std::vector<std::string> variables;
  for (const auto& list : set.lists) {
    std::vector<std::string> entries;
    for (std::size_t i = 0; i < chosen.size(); ++i)
      entries.push_back(list.is_relative ? std::to_string(i) : list.entries[chosen[i]]);
    variables.push_back(fmt::format("{}={}", list.variable, fmt::join(entries, ",")));
  }
  if (set.orders_by_pci) variables.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  return variables;
}

}  // namespace rlx::launcher
