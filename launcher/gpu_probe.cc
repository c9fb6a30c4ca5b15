// SPDX-License-Identifier: MIT OR Apache-2.0
// Source: the NVIDIA driver's README (/proc/driver/nvidia) and the NVML API reference.
#include "launcher/gpu_probe.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <memory>

namespace rlx::launcher {
namespace {

namespace fs = std::filesystem;

// "Device Minor: \t 0" to "0".
std::string value_of(const std::string& line, std::string_view key) {
  if (!line.starts_with(key)) return "";
  const auto begin = line.find_first_not_of(" \t:", key.size());
  return begin == std::string::npos ? ""
                                    : line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
}

std::vector<GpuFact> read_proc(const std::string& root) {
  std::vector<GpuFact> facts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", error)) {
    GpuFact fact;
    fact.pci = entry.path().filename();
    std::ifstream file(entry.path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (auto uuid = value_of(line, "GPU UUID");
          uuid.starts_with("GPU-") && uuid.find('?') == std::string::npos)
        fact.uuid = std::move(uuid);
      const auto minor = value_of(line, "Device Minor");
      std::from_chars(minor.data(), minor.data() + minor.size(), fact.minor);
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

// A partitioned GPU has directories gi0, gi1, ... there.
bool is_partitioned(const std::string& root) {
  std::error_code error;
  for (const auto& gpu : fs::directory_iterator(root + "/proc/driver/nvidia/capabilities", error)) {
    std::error_code inner;
    for (const auto& entry : fs::directory_iterator(gpu.path() / "mig", inner))
      if (entry.path().filename().string().starts_with("gi")) return true;
  }
  return false;
}

// The few functions of libnvidia-ml.so.1 that are needed.
class Nvml {
 public:
  static std::vector<GpuFact> read(const char* name) {
    const std::unique_ptr<void, int (*)(void*)> library(
        dlopen(name, RTLD_NOW | RTLD_LOCAL),
        [](void* handle) { return handle ? dlclose(handle) : 0; });
    std::vector<GpuFact> facts;
    if (!library) return facts;
    const Nvml nvml(library.get());
    if (!nvml.complete() || nvml.init_() != 0) return facts;
    unsigned count = 0;
    if (nvml.count_(&count) != 0) count = 0;
    for (unsigned i = 0; i < count; ++i)
      if (Handle gpu = nullptr; nvml.by_index_(i, &gpu) == 0) facts.push_back(nvml.fact_of(gpu));
    nvml.shutdown_();
    return facts;
  }

 private:
  using Handle = void*;
  struct PciInfo {
    char legacy_id[16];
    unsigned domain, bus, device, ids, subsystem_ids;
    char id[32];
  };

  explicit Nvml(void* library) {
    load(library, "nvmlInit_v2", init_);
    load(library, "nvmlShutdown", shutdown_);
    load(library, "nvmlDeviceGetCount_v2", count_);
    load(library, "nvmlDeviceGetHandleByIndex_v2", by_index_);
    load(library, "nvmlDeviceGetUUID", uuid_);
    load(library, "nvmlDeviceGetPciInfo_v3", pci_);
    load(library, "nvmlDeviceGetMinorNumber", minor_);
    load(library, "nvmlDeviceGetMaxMigDeviceCount", max_migs_);
    load(library, "nvmlDeviceGetMigDeviceHandleByIndex", mig_);
  }
  template <class Function>
  static void load(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
  }
  bool complete() const {
    return init_ && shutdown_ && count_ && by_index_ && uuid_ && pci_ && minor_;
  }

  std::string uuid_of(Handle device) const {
    char text[96] = "";
    return uuid_(device, text, sizeof text) == 0 ? text : "";
  }

  GpuFact fact_of(Handle gpu) const {
    GpuFact fact;
    PciInfo pci{};
    if (pci_(gpu, &pci) == 0)
      fact.pci = fmt::format("{:04x}:{:02x}:{:02x}.0", pci.domain, pci.bus, pci.device);
    fact.uuid = uuid_of(gpu);
    minor_(gpu, &fact.minor);
    unsigned most = 0;
    if (!max_migs_ || !mig_ || max_migs_(gpu, &most) != 0) return fact;
    for (unsigned i = 0; i < most; ++i)
      if (Handle part = nullptr; mig_(gpu, i, &part) == 0)
        if (auto uuid = uuid_of(part); !uuid.empty()) fact.migs.push_back(std::move(uuid));
    return fact;
  }

  int (*init_)() = nullptr;
  int (*shutdown_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*by_index_)(unsigned, Handle*) = nullptr;
  int (*uuid_)(Handle, char*, unsigned) = nullptr;
  int (*pci_)(Handle, PciInfo*) = nullptr;
  int (*minor_)(Handle, unsigned*) = nullptr;
  int (*max_migs_)(Handle, unsigned*) = nullptr;
  int (*mig_)(Handle, unsigned, Handle*) = nullptr;
};

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

}  // namespace

bool may_have_gpus(const std::string& root) {
  for (const char* sign : {"/dev/nvidiactl", "/proc/driver/nvidia", "/dev/kfd", "/dev/dri"})
    if (exists(root + sign)) return true;
  return false;
}

std::vector<GpuFact> read_gpu_facts(const std::string& root, const char* library) {
  auto facts = read_proc(root);
  const bool missing = facts.empty() && exists(root + "/dev/nvidiactl");
  if (!missing && !is_partitioned(root)) return facts;
  auto more = Nvml::read(library);
  return more.empty() ? facts : more;
}

}  // namespace rlx::launcher
