// SPDX-License-Identifier: MIT OR Apache-2.0
#include "kernels/targets.h"
// After targets.h.
#include <hwy/highway.h>

#include "kernels/isa.h"

namespace rlx::kernels {
namespace {

std::vector<std::int64_t> runnable() {
  std::vector<std::int64_t> targets;
  for (std::int64_t left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1)
    targets.push_back(left & -left);  // the lowest bit is the best target
  return targets;
}

}  // namespace

const char* isa_name() { return hwy::TargetName(runnable().front()); }

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (std::int64_t target : runnable()) names.push_back(hwy::TargetName(target));
  return names;
}

bool use_isa(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (name.empty()) return true;
  for (std::int64_t target : runnable()) {
    if (name != hwy::TargetName(target)) continue;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    return true;
  }
  return false;
}

}  // namespace rlx::kernels
